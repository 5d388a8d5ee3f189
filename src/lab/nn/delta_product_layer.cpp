#include "nn/delta_product_layer.h"

#include <ATen/ATen.h>

#include "ops/delta_product.h"
#include "ops/linear.h"

namespace dp {

DeltaProductLayer::DeltaProductLayer(const ModelConfig& config)
    : config_(config),
      q_(config, 'q', config.query_width()),
      k_(config, 'k', config.key_width(), config.num_householder),
      v_(config, 'v', config.value_width(), config.num_householder),
      output_(config, config.value_heads(), config.value_head_dim()) {
  const int64_t D = config.hidden_size, heads = config.value_heads();
  b_proj_ = Parameter::matrix({config.num_householder * heads, D}, Init::kMixerProjection,
                              config.num_householder);
  a_proj_ = Parameter::matrix({heads, D}, Init::kMixerProjection);
  A_log_ = Parameter::vector({heads}, Init::kDecayRate);
  dt_bias_ = Parameter::vector({heads}, Init::kTimeStep);
}

StateShapes DeltaProductLayer::state_shapes() const {
  StateShapes shapes = {
      {"recurrent", {config_.value_heads(), config_.head_dim, config_.value_head_dim()}}};
  for (const ConvStream* stream : {&q_, &k_, &v_}) stream->add_state(shapes);
  return shapes;
}

int64_t DeltaProductLayer::recurrence_flops() const {
  return (4 * config_.num_householder + 2) * config_.head_dim * config_.output_width();
}

void DeltaProductLayer::list_parameters(const std::string& prefix, NamedParameters& list) {
  const auto add = [&](const char* name, Parameter& parameter) {
    list.push_back({prefix + name, &parameter});
  };
  for (ConvStream* stream : {&q_, &k_, &v_}) stream->list_projection(prefix, list);
  add("b_proj.weight", b_proj_);
  if (config_.use_forget_gate) {
    add("a_proj.weight", a_proj_);
    add("A_log", A_log_);
    add("dt_bias", dt_bias_);
  }
  for (ConvStream* stream : {&q_, &k_, &v_}) stream->list_conv(prefix, list);
  output_.list_parameters(prefix, list);
}

// -exp(A_log) softplus(a_proj x + dt_bias), one per value head and token.
at::Tensor DeltaProductLayer::log_gate(const at::Tensor& x) const {
  const at::Tensor step = at::softplus(dp::linear(x, a_proj_.value) + dt_bias_.value);
  return -at::exp(A_log_.value) * step;
}

RecurrenceInputs DeltaProductLayer::recurrence_inputs(const at::Tensor& x, const MixerContext& context) const {
  const int64_t B = x.size(0), T = x.size(1), N = config_.num_householder, H = config_.num_heads;
  const int64_t K = config_.head_dim, V = config_.value_head_dim(), heads = config_.value_heads();
  RecurrenceInputs inputs;
  inputs.q = q_.forward(x, K, context).view({B, T, H, K});
  inputs.k = k_.forward(x, K, context).view({B, T, N, H, K});
  inputs.v = v_.forward(x, 0, context).view({B, T, N, heads, V});
  if (heads != H) {  // a query and key head serves several value heads
    inputs.q = inputs.q.repeat_interleave(heads / H, 2);
    inputs.k = inputs.k.repeat_interleave(heads / H, 3);
  }
  inputs.beta = at::sigmoid(dp::linear(x, b_proj_.value)).view({B, T, N, heads});
  if (config_.allow_neg_eigval) inputs.beta = inputs.beta * 2;
  if (config_.use_forget_gate) inputs.log_gate = log_gate(x);
  return inputs;
}

at::Tensor DeltaProductLayer::forward(const at::Tensor& x, const MixerContext& context) const {
  const auto [q, k, v, beta, gate] = recurrence_inputs(x, context);
  DeltaProductOptions options;
  options.cu_seqlens = context.cu_seqlens;
  options.log_gate = gate;
  options.state = context.find("recurrent");
  const DeltaProductOutput output = delta_product(q, k, v, beta, options);
  context.keep("recurrent", output.state);
  return output_.forward(output.o, x);
}

std::unique_ptr<TokenMixer> make_delta_product_mixer(const ModelConfig& config) {
  return std::make_unique<DeltaProductLayer>(config);
}

}  // namespace dp
