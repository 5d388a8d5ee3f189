// The delta-product recurrence in float32: forward, backward and the one-token step, over raw memory.
// N factors per token, H heads, K key width, V value width; derivations are in docs/math/.
#pragma once
#include <cstddef>

#include "base/executor.h"
#include "kernels/sequences.h"

namespace dp {

/// Packed sequences and their arrays, contiguous unless a pitch says otherwise; "tokens" stands for num_tokens().
struct DeltaProductInputs : Sequences {
  size_t N = 1, H = 1, K = 1, V = 1;
  float scale = 1;
  const float* q = nullptr;         // [tokens,H,K]
  const float* k = nullptr;         // [tokens,N,H,K]
  const float* v = nullptr;         // [tokens,N,H,V]
  const float* beta = nullptr;      // [tokens,N,H]
  const float* log_gate = nullptr;  // [tokens,H], or null for no gate
  const float* state = nullptr;     // [num_sequences,H,K,V], or null for zeros
  // Floats from a token's queries, and from a step's keys and values, to the next one's: q, k and v may be columns of wider
  // rows. 0: contiguous.
  size_t q_pitch = 0, k_pitch = 0, v_pitch = 0;
  // Whether rows of q and k are first divided by sqrt(|row|^2 + 1e-6); their gradients are then those of q and k as given.
  bool normalise = false;

  size_t q_step() const { return q_pitch == 0 ? H * K : q_pitch; }
  size_t k_step() const { return k_pitch == 0 ? H * K : k_pitch; }
  size_t v_step() const { return v_pitch == 0 ? H * V : v_pitch; }
};

/// Per token: S *= exp(log_gate); for j < N: S += beta_j k_j (v_j - S^T k_j)^T; o = scale S^T q.
///   o      [tokens,H,V]
///   state  [num_sequences,H,K,V] after each sequence's last token, or null; may alias inputs.state
///   saved  delta_product_saved_size() floats for delta_product_backward, or null
void delta_product_forward(const DeltaProductInputs& inputs, float* o, float* state, float* saved,
                           Executor& executor);

/// Floats of chunk states and prediction errors that a forward pass keeps for its backward pass.
size_t delta_product_saved_size(const DeltaProductInputs& inputs);

/// The most that delta_product_saved_size() can be for this many tokens, whatever the sequences' lengths. Of the inputs
/// only the sizes are read.
size_t delta_product_max_saved_size(const DeltaProductInputs& inputs, size_t tokens);

/// Gradients of sum(o d_o) + sum(final state d_final_state). Every output is overwritten; those of
/// optional inputs may be null.
struct DeltaProductGradients {
  const float* d_o = nullptr;            // [tokens,H,V]
  const float* d_final_state = nullptr;  // [num_sequences,H,K,V], or null for zeros
  float* dq = nullptr;                   // as q
  float* dk = nullptr;                   // as k
  float* dv = nullptr;                   // as v
  float* dbeta = nullptr;                // as beta
  float* dlog_gate = nullptr;            // as log_gate, or null when there is no gate
  float* dstate = nullptr;               // as state, or null when not wanted
  // Floats from a token's rows of dq, and from a step's rows of dk and dv, to the next one's. 0: contiguous.
  size_t dq_pitch = 0, dk_pitch = 0, dv_pitch = 0;
};

void delta_product_backward(const DeltaProductInputs& inputs, const float* saved,
                            const DeltaProductGradients& gradients, Executor& executor);

}  // namespace dp
