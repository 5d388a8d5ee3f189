// The matrix that a trained layer applies to its state at each token, and its eigenvalues.
// B sequences, T tokens, N factors per token, H heads, K key width; R rows of F factors each.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "nn/language_model.h"

namespace dp::analysis {

/// The recurrence of a layer, S <- gate (I - beta_N k_N k_N^T) .. (I - beta_1 k_1 k_1^T) S + input, in
/// float32 and per value head: a key head that serves several of these is there several times.
struct Factors {
  at::Tensor k;         // [B,T,N,H,K], of about unit length
  at::Tensor beta;      // [B,T,N,H]
  at::Tensor log_gate;  // [B,T,H], <= 0; zeros without a forget gate
};

/// The factors of a layer when the model reads tokens [B,T]. Throws InputError if the layer is not a
/// DeltaProduct layer.
Factors layer_factors(const LanguageModel& model, int64_t layer, const at::Tensor& tokens);

/// Whether a layer's factors depend on the token alone, not on those before it.
bool depends_on_token_alone(const ModelConfig& config, int64_t layer);

/// A = gate (I - beta_F k_F k_F^T) .. (I - beta_1 k_1 k_1^T): [R,K,K] in double from k [R,F,K],
/// beta [R,F] and gate [R].
at::Tensor transition_matrices(const at::Tensor& k, const at::Tensor& beta, const at::Tensor& gate);

/// [R,K,K] -> [R,K] complex. Each row begins with those farthest from its gate [R], the eigenvalue of
/// all directions that no key touches; of two equally far, the one with the larger imaginary part.
at::Tensor eigenvalues(const at::Tensor& matrices, const at::Tensor& gate);

}  // namespace dp::analysis
