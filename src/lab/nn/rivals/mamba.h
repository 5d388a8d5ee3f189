// The Mamba layer, with the parameters and conventions of state-spaces/mamba, and eigenvalues in [0,1] or,
// with allow_neg_eigval, in [-1,1].
#pragma once
#include "io/model_config.h"
#include "nn/token_mixer.h"

namespace dp {

/// Shapes, with E channels, N states per channel, and steps of rank R:
///   in_proj [2E, D]   conv1d [E, 1, W] and its bias [E]   x_proj [R + 2N, E]   dt_proj [E, R] and bias [E]
///   A_log [E, N]   D [E]   out_proj [D, E]
/// State: "recurrent" [S,E,N] and, with the short convolution, "conv" [S,W,E], the last W inputs of it,
/// oldest first.
class MambaMixer final : public TokenMixer {
 public:
  explicit MambaMixer(const ModelConfig& config);

  at::Tensor forward(const at::Tensor& x, const MixerContext& context) const override;
  StateShapes state_shapes() const override;
  int64_t recurrence_flops() const override;
  void list_parameters(const std::string& prefix, NamedParameters& list) override;

 private:
  at::Tensor activated(const at::Tensor& x, const MixerContext& context) const;
  at::Tensor scan(const at::Tensor& x, const MixerContext& context) const;

  ModelConfig config_;
  int64_t channels_, rank_;
  Parameter in_proj_, conv_weight_, conv_bias_, x_proj_, dt_proj_, dt_bias_, A_log_, D_, out_proj_;
};

}  // namespace dp
