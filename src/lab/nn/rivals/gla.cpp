#include "nn/rivals/gla.h"

#include <ATen/ATen.h>

#include <cmath>

#include "ops/dplr.h"
#include "ops/linear.h"

namespace dp {

GlaMixer::GlaMixer(const ModelConfig& config)
    : config_(config),
      q_(config, 'q', config.query_width()),
      k_(config, 'k', config.query_width()),
      v_(config, 'v', config.num_heads * config.value_head_dim()),
      output_(config, config.num_heads, config.value_head_dim()) {
  gate_down_ = Parameter::matrix({config.gla.gate_low_rank_dim, config.hidden_size});
  gate_up_ = Parameter::matrix({config.query_width(), config.gla.gate_low_rank_dim});
  gate_bias_ = Parameter::vector({config.query_width()}, Init::kZeros);
}

StateShapes GlaMixer::state_shapes() const {
  StateShapes shapes = {
      {"recurrent", {config_.num_heads, config_.head_dim, config_.value_head_dim()}}};
  for (const ConvStream* stream : {&q_, &k_, &v_}) stream->add_state(shapes);
  return shapes;
}

// Decay, write and read: two operations each per element of the state.
int64_t GlaMixer::recurrence_flops() const {
  return 5 * config_.num_heads * config_.head_dim * config_.value_head_dim();
}

void GlaMixer::list_parameters(const std::string& prefix, NamedParameters& list) {
  for (ConvStream* stream : {&q_, &k_, &v_}) stream->list_projection(prefix, list);
  for (ConvStream* stream : {&q_, &k_, &v_}) stream->list_conv(prefix, list);
  list.push_back({prefix + "gk_proj.0.weight", &gate_down_});
  list.push_back({prefix + "gk_proj.1.weight", &gate_up_});
  list.push_back({prefix + "gk_proj.1.bias", &gate_bias_});
  output_.list_parameters(prefix, list);
}

at::Tensor GlaMixer::forward(const at::Tensor& x, const MixerContext& context) const {
  const int64_t B = x.size(0), T = x.size(1), H = config_.num_heads, K = config_.head_dim;
  const auto stream = [&](const ConvStream& s) {
    return config_.use_short_conv ? s.forward(x, 0, context) : s.project(x);
  };
  const at::Tensor q = stream(q_).view({B, T, H, K}) / std::sqrt(static_cast<double>(K));
  const at::Tensor k = stream(k_).view({B, T, 1, H, K});
  const at::Tensor v = stream(v_).view({B, T, 1, H, config_.value_head_dim()});
  const at::Tensor logits =
      dp::linear(dp::linear(x, gate_down_.value), gate_up_.value) + gate_bias_.value;
  const at::Tensor alpha = at::exp(at::log_sigmoid(logits) / config_.gla.gate_logit_normalizer);
  DplrOptions options;
  options.cu_seqlens = context.cu_seqlens;
  options.state = context.find("recurrent");
  const DplrOutput output = dplr(q, alpha.view({B, T, 1, H, K}), k, v, options);
  context.keep("recurrent", output.state);
  return output_.forward(output.o, x);
}

std::unique_ptr<TokenMixer> make_gla_mixer(const ModelConfig& config) {
  return std::make_unique<GlaMixer>(config);
}

}  // namespace dp
