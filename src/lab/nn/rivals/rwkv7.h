// RWKV-7's transition (Peng et al. 2025), and products of several of them per token.
#pragma once
#include "nn/conv_stream.h"
#include "nn/head_output.h"

namespace dp {

/// For each of N factors per token, with k of unit length and a, w in [0,1]^K:
///   S <- (diag(w) - c k (k * a)^T) S + (k * a) v^T,   o = S^T q / sqrt(K)
/// c is 2 with config.allow_neg_eigval and 1 without. w = exp(-e^-0.5 sigmoid(.)) as in RWKV-7 with
/// config.use_forget_gate, and 1 without. It is the paper's transition inside DeltaProduct's layer: convolutions
/// in place of token shifts, and none of RWKV-7's mixing of values across layers; checkpoints of RWKV-7 are not
/// read. Products of these may grow: see docs/theory.md.
///   q_proj [H K, D]   k_proj [N H K, D]   v_proj [N H V, D]
///   a_proj, w_proj: .0 [R, D], .1 [N H K, R] and a bias [N, H, K], R the rank
/// State: "recurrent" [S,H,K,V] and the convolutions' inputs, if the layer has these.
class Rwkv7Mixer final : public TokenMixer {
 public:
  explicit Rwkv7Mixer(const ModelConfig& config);

  at::Tensor forward(const at::Tensor& x, const MixerContext& context) const override;
  StateShapes state_shapes() const override;
  int64_t recurrence_flops() const override;
  void list_parameters(const std::string& prefix, NamedParameters& list) override;

 private:
  /// sigmoid(up (down x) + bias) [B,T,N,H,K]
  struct Gate {
    Parameter down, up, bias;
    at::Tensor operator()(const at::Tensor& x) const;
  };

  ModelConfig config_;
  ConvStream q_, k_, v_;
  Gate a_, w_;
  HeadOutput output_;
};

}  // namespace dp
