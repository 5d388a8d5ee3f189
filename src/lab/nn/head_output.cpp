#include "nn/head_output.h"

#include <ATen/ATen.h>

#include "ops/linear.h"
#include "ops/rms_norm.h"

namespace dp {

HeadOutput::HeadOutput(const ModelConfig& config, int64_t heads, int64_t head_width)
    : gated_(config.use_output_gate), eps_(config.norm_eps) {
  const int64_t width = heads * head_width;
  g_proj_ = Parameter::matrix({width, config.hidden_size}, Init::kMixerProjection);
  o_norm_ = Parameter::vector({head_width}, Init::kOnes);
  o_proj_ = Parameter::matrix({config.hidden_size, width}, Init::kMixerProjection);
}

at::Tensor HeadOutput::forward(const at::Tensor& o, const at::Tensor& x) const {
  const at::Tensor normed =
      gated_ ? gated_rms_norm(o, dp::linear(x, g_proj_.value).view(o.sizes()), o_norm_.value, eps_)
             : rms_norm(o, o_norm_.value, eps_);
  return dp::linear(normed.flatten(2), o_proj_.value);
}

void HeadOutput::list_parameters(const std::string& prefix, NamedParameters& list) {
  if (gated_) list.push_back({prefix + "g_proj.weight", &g_proj_});
  list.push_back({prefix + "o_norm.weight", &o_norm_});
  list.push_back({prefix + "o_proj.weight", &o_proj_});
}

}  // namespace dp
