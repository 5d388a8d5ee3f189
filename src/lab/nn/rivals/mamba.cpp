#include "nn/rivals/mamba.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "nn/conv_stream.h"
#include "ops/linear.h"
#include "ops/selective_scan.h"
#include "ops/swiglu.h"

namespace dp {

MambaMixer::MambaMixer(const ModelConfig& config)
    : config_(config),
      channels_(std::llround(static_cast<double>(config.hidden_size) * config.mamba.expand)),
      rank_((config.hidden_size + 15) / 16) {
  const int64_t D = config.hidden_size, E = channels_, N = config.mamba.state_size;
  in_proj_ = Parameter::matrix({2 * E, D});
  conv_weight_ = Parameter::matrix({E, 1, config.conv_size});
  conv_bias_ = Parameter::vector({E}, Init::kZeros);
  x_proj_ = Parameter::matrix({rank_ + 2 * N, E});
  dt_proj_ = Parameter::matrix({E, rank_});
  dt_bias_ = Parameter::vector({E}, Init::kTimeStep);
  A_log_ = Parameter::vector({E, N}, Init::kStateIndex);
  D_ = Parameter::vector({E}, Init::kOnes);
  out_proj_ = Parameter::matrix({D, E});
}

StateShapes MambaMixer::state_shapes() const {
  StateShapes shapes = {{"recurrent", {channels_, config_.mamba.state_size}}};
  if (config_.use_short_conv) shapes["conv"] = {config_.conv_size, channels_};
  return shapes;
}

// Of each state: dt A, dt x times B, a h plus that, C h added up. Of each channel: dt x, and D x added.
int64_t MambaMixer::recurrence_flops() const {
  return 6 * channels_ * config_.mamba.state_size + 3 * channels_;
}

void MambaMixer::list_parameters(const std::string& prefix, NamedParameters& list) {
  const auto add = [&](const char* name, Parameter& parameter) {
    list.push_back({prefix + name, &parameter});
  };
  add("in_proj.weight", in_proj_);
  if (config_.use_short_conv) {
    add("conv1d.weight", conv_weight_);
    add("conv1d.bias", conv_bias_);
  }
  add("x_proj.weight", x_proj_);
  add("dt_proj.weight", dt_proj_);
  add("dt_proj.bias", dt_bias_);
  add("A_log", A_log_);
  add("D", D_);
  add("out_proj.weight", out_proj_);
}

// silu(conv(x)), or silu(x) without the convolution.
at::Tensor MambaMixer::activated(const at::Tensor& x, const MixerContext& context) const {
  if (!config_.use_short_conv) return at::silu(x);
  return convolve(x, conv_weight_.value, conv_bias_.value, "conv", /*head_size=*/0, context);
}

at::Tensor MambaMixer::scan(const at::Tensor& x, const MixerContext& context) const {
  const int64_t N = config_.mamba.state_size;
  const std::vector<at::Tensor> parts =
      dp::linear(x, x_proj_.value).split_with_sizes({rank_, N, N}, 2);
  const at::Tensor dt = at::softplus(dp::linear(parts[0], dt_proj_.value) + dt_bias_.value);
  const at::Tensor A = -at::exp(A_log_.value.to(at::kFloat));  // a matrix, so it may be bfloat16
  SelectiveScanOptions options;
  options.D = D_.value;
  options.cu_seqlens = context.cu_seqlens;
  options.negative_eigenvalues = config_.allow_neg_eigval;
  options.state = context.find("recurrent");
  const SelectiveScanOutput output = selective_scan(x, dt, A, parts[1], parts[2], options);
  context.keep("recurrent", output.state);
  return output.y;
}

at::Tensor MambaMixer::forward(const at::Tensor& x, const MixerContext& context) const {
  const std::vector<at::Tensor> halves = dp::linear(x, in_proj_.value).chunk(2, 2);
  const at::Tensor y = scan(activated(halves[0], context), context);
  return dp::linear(swiglu(halves[1], y), out_proj_.value);
}

std::unique_ptr<TokenMixer> make_mamba_mixer(const ModelConfig& config) {
  return std::make_unique<MambaMixer>(config);
}

}  // namespace dp
