// Causal softmax attention with rotary positions: with the blocks' RMS norms and SwiGLU, Transformer++.
#pragma once
#include "io/model_config.h"
#include "nn/token_mixer.h"

namespace dp {

/// o = softmax(q k^T / sqrt(K), causal) v with q and k turned by their position (fla's halves: channel i goes
/// with i + K/2). Parameters: q_proj, k_proj [H K, D]   v_proj [H V, D]   o_proj [D, H V]
/// There is no convolution and no gate, whatever the configuration says.
/// State: the cache, "k" [S,tokens,H K] after turning and "v" [S,tokens,H V]. Sequences packed into one row may
/// carry one only if they are equally long.
class TransformerMixer final : public TokenMixer {
 public:
  explicit TransformerMixer(const ModelConfig& config);

  at::Tensor forward(const at::Tensor& x, const MixerContext& context) const override;
  StateShapes state_shapes() const override;
  int64_t recurrence_flops() const override;
  void list_parameters(const std::string& prefix, NamedParameters& list) override;

 private:
  at::Tensor turned(const at::Tensor& x, int64_t first_position) const;
  /// x [B,T,D] of sequences of their own; `k` and `v` are the cache, or undefined, and grow by the tokens.
  at::Tensor attend(const at::Tensor& x, at::Tensor& k, at::Tensor& v) const;

  ModelConfig config_;
  Parameter q_proj_, k_proj_, v_proj_, o_proj_;
};

}  // namespace dp
