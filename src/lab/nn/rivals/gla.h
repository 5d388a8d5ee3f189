// Gated linear attention (Yang et al. 2024): the state decays by a gate of its own in every row.
#pragma once
#include "nn/conv_stream.h"
#include "nn/head_output.h"

namespace dp {

///   S <- diag(alpha) S + k v^T,  o = S^T q / sqrt(K),  alpha = sigmoid(gk_proj x)^(1/normalizer)
/// Parameters as fla names them, with R the rank of the gate's projection:
///   q_proj, k_proj [H K, D]   v_proj [H V, D]   gk_proj.0 [R, D], gk_proj.1 [H K, R] with a bias
/// State: "recurrent" [S,H,K,V] and the convolutions' inputs, if the layer has these.
class GlaMixer final : public TokenMixer {
 public:
  explicit GlaMixer(const ModelConfig& config);

  at::Tensor forward(const at::Tensor& x, const MixerContext& context) const override;
  StateShapes state_shapes() const override;
  int64_t recurrence_flops() const override;
  void list_parameters(const std::string& prefix, NamedParameters& list) override;

 private:
  ModelConfig config_;
  ConvStream q_, k_, v_;
  Parameter gate_down_, gate_up_, gate_bias_;
  HeadOutput output_;
};

}  // namespace dp
