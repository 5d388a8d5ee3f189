#include "nn/rivals/rwkv7.h"

#include <ATen/ATen.h>

#include <cmath>

#include "ops/dplr.h"
#include "ops/linear.h"

namespace dp {

Rwkv7Mixer::Rwkv7Mixer(const ModelConfig& config)
    : config_(config),
      q_(config, 'q', config.query_width()),
      k_(config, 'k', config.key_width()),
      v_(config, 'v', config.num_householder * config.num_heads * config.value_head_dim()),
      output_(config, config.num_heads, config.value_head_dim()) {
  for (Gate* gate : {&a_, &w_}) {
    gate->down = Parameter::matrix({config.rwkv7.gate_low_rank_dim, config.hidden_size});
    gate->up = Parameter::matrix({config.key_width(), config.rwkv7.gate_low_rank_dim});
    gate->bias = Parameter::vector({config.num_householder, config.num_heads, config.head_dim},
                                   gate == &a_ ? Init::kZeros : Init::kDecayLogits);
  }
}

at::Tensor Rwkv7Mixer::Gate::operator()(const at::Tensor& x) const {
  const at::Tensor logits = dp::linear(dp::linear(x, down.value), up.value);
  std::vector<int64_t> sizes = {x.size(0), x.size(1)};
  sizes.insert(sizes.end(), bias.shape.begin(), bias.shape.end());
  return at::sigmoid(logits.view(sizes) + bias.value);
}

StateShapes Rwkv7Mixer::state_shapes() const {
  StateShapes shapes = {
      {"recurrent", {config_.num_heads, config_.head_dim, config_.value_head_dim()}}};
  for (const ConvStream* stream : {&q_, &k_, &v_}) stream->add_state(shapes);
  return shapes;
}

int64_t Rwkv7Mixer::recurrence_flops() const {
  return (7 * config_.num_householder + 2) * config_.num_heads * config_.head_dim *
         config_.value_head_dim();
}

void Rwkv7Mixer::list_parameters(const std::string& prefix, NamedParameters& list) {
  for (ConvStream* stream : {&q_, &k_, &v_}) stream->list_projection(prefix, list);
  for (ConvStream* stream : {&q_, &k_, &v_}) stream->list_conv(prefix, list);
  const auto add = [&](const std::string& name, Gate& gate) {
    list.push_back({prefix + name + ".0.weight", &gate.down});
    list.push_back({prefix + name + ".1.weight", &gate.up});
    list.push_back({prefix + name + ".bias", &gate.bias});
  };
  add("a_proj", a_);
  if (config_.use_forget_gate) add("w_proj", w_);
  output_.list_parameters(prefix, list);
}

at::Tensor Rwkv7Mixer::forward(const at::Tensor& x, const MixerContext& context) const {
  const int64_t B = x.size(0), T = x.size(1), N = config_.num_householder, H = config_.num_heads,
                K = config_.head_dim, V = config_.value_head_dim();
  const double c = config_.allow_neg_eigval ? 2 : 1;
  const at::Tensor q =
      q_.forward(x, K, context).view({B, T, H, K}) / std::sqrt(static_cast<double>(K));
  const at::Tensor k = k_.forward(x, K, context).view({B, T, N, H, K});
  const at::Tensor v = v_.forward(x, 0, context).view({B, T, N, H, V});
  const at::Tensor scaled = k * a_(x);
  const at::Tensor w =
      config_.use_forget_gate ? at::exp(-std::exp(-0.5) * w_(x)) : at::ones_like(k);
  DplrOptions options;
  options.a = -c * k;
  options.b = scaled;
  options.cu_seqlens = context.cu_seqlens;
  options.state = context.find("recurrent");
  const DplrOutput output = dplr(q, w, scaled, v, options);
  context.keep("recurrent", output.state);
  return output_.forward(output.o, x);
}

std::unique_ptr<TokenMixer> make_rwkv7_mixer(const ModelConfig& config) {
  return std::make_unique<Rwkv7Mixer>(config);
}

}  // namespace dp
