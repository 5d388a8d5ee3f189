// The sLSTM token mixer of the xLSTM paper (Beck et al. 2024), a rival.
#pragma once
#include "io/model_config.h"
#include "nn/token_mixer.h"

namespace dp {

/// H heads of K = head_dim units. The gates i and f see silu(conv(x)), if there is a convolution, z and o
/// see x; h passes an RMS norm per head and o_proj. Shapes, with rows ordered gate by gate, [2,H,K]:
///   if_proj, zo_proj [2 H K, D]   i.bias, f.bias, z.bias, o.bias [H,K]   recurrent [H,4,K,K]
///   conv1d [D,1,W] with a bias [D]   o_norm [K]   o_proj [D, H K]
/// State: "recurrent" [S,H,4,K] as of ops/slstm.h and, with the convolution, "conv" [S,W,D].
class SlstmMixer final : public TokenMixer {
 public:
  explicit SlstmMixer(const ModelConfig& config);

  at::Tensor forward(const at::Tensor& x, const MixerContext& context) const override;
  StateShapes state_shapes() const override;
  int64_t recurrence_flops() const override;
  void list_parameters(const std::string& prefix, NamedParameters& list) override;

 private:
  at::Tensor gates(const at::Tensor& x, const MixerContext& context) const;

  ModelConfig config_;
  Parameter if_proj_, zo_proj_, i_bias_, f_bias_, z_bias_, o_bias_;
  Parameter recurrent_, conv_weight_, conv_bias_, o_norm_, o_proj_;
};

}  // namespace dp
