#include "nn/rivals/slstm.h"

#include <ATen/ATen.h>

#include "nn/conv_stream.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/slstm.h"

namespace dp {

SlstmMixer::SlstmMixer(const ModelConfig& config) : config_(config) {
  const int64_t D = config.hidden_size, H = config.num_heads, K = config.head_dim;
  if_proj_ = zo_proj_ = Parameter::matrix({2 * H * K, D});
  for (Parameter* bias : {&i_bias_, &z_bias_, &o_bias_})
    *bias = Parameter::vector({H, K}, Init::kZeros);
  f_bias_ = Parameter::vector({H, K}, Init::kForgetBias);
  recurrent_ = Parameter::matrix({H, 4, K, K});
  conv_weight_ = Parameter::matrix({D, 1, config.conv_size});
  conv_bias_ = Parameter::vector({D}, Init::kZeros);
  o_norm_ = Parameter::vector({K}, Init::kOnes);
  o_proj_ = Parameter::matrix({D, H * K});
}

StateShapes SlstmMixer::state_shapes() const {
  StateShapes shapes = {{"recurrent", {config_.num_heads, 4, config_.head_dim}}};
  if (config_.use_short_conv) shapes["conv"] = {config_.conv_size, config_.hidden_size};
  return shapes;
}

// The products with recurrent.weight count with the parameters.
int64_t SlstmMixer::recurrence_flops() const { return 10 * config_.num_heads * config_.head_dim; }

void SlstmMixer::list_parameters(const std::string& prefix, NamedParameters& list) {
  const auto add = [&](const char* name, Parameter& parameter) {
    list.push_back({prefix + name, &parameter});
  };
  if (config_.use_short_conv) {
    add("conv1d.weight", conv_weight_);
    add("conv1d.bias", conv_bias_);
  }
  add("if_proj.weight", if_proj_);
  add("zo_proj.weight", zo_proj_);
  add("i.bias", i_bias_);
  add("f.bias", f_bias_);
  add("z.bias", z_bias_);
  add("o.bias", o_bias_);
  add("recurrent.weight", recurrent_);
  add("o_norm.weight", o_norm_);
  add("o_proj.weight", o_proj_);
}

// [B,T,H,4,K]
at::Tensor SlstmMixer::gates(const at::Tensor& x, const MixerContext& context) const {
  const int64_t B = x.size(0), T = x.size(1), H = config_.num_heads, K = config_.head_dim;
  const at::Tensor convolved =
      config_.use_short_conv
          ? convolve(x, conv_weight_.value, conv_bias_.value, "conv", /*head_size=*/0, context)
          : x;
  const auto two_gates = [&](const at::Tensor& input, const Parameter& projection) {
    return dp::linear(input, projection.value).view({B, T, 2, H, K}).transpose(2, 3);
  };
  const at::Tensor bias =
      at::stack({i_bias_.value, f_bias_.value, z_bias_.value, o_bias_.value}, 1);
  return at::cat({two_gates(convolved, if_proj_), two_gates(x, zo_proj_)}, 3) + bias;
}

at::Tensor SlstmMixer::forward(const at::Tensor& x, const MixerContext& context) const {
  SlstmOptions options;
  options.cu_seqlens = context.cu_seqlens;
  if (context.state != nullptr) {
    const auto found = context.state->find("recurrent");
    if (found != context.state->end()) options.state = found->second;
  }
  SlstmOutput output = slstm(gates(x, context), recurrent_.value, options);
  if (context.state != nullptr) (*context.state)["recurrent"] = std::move(output.state);
  return dp::linear(rms_norm(output.h, o_norm_.value, config_.norm_eps).flatten(2), o_proj_.value);
}

std::unique_ptr<TokenMixer> make_slstm_mixer(const ModelConfig& config) {
  return std::make_unique<SlstmMixer>(config);
}

}  // namespace dp
