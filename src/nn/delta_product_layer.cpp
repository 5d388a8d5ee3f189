#include "nn/delta_product_layer.h"

#include <ATen/ATen.h>

#include "ops/delta_product.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/short_conv.h"

namespace dp {

DeltaProductLayer::DeltaProductLayer(const ModelConfig& config) : config_(config) {
  const int64_t D = config.hidden_size, W = config.conv_size, heads = config.value_heads();
  const auto make_stream = [&](Stream& stream, int64_t channels) {
    stream.projection.shape = {channels, D};
    stream.conv_weight.shape = {channels, 1, W};
    stream.conv_bias = {.shape = {channels}, .init = Init::kZeros, .value = {}};
  };
  make_stream(q_, config.query_width());
  make_stream(k_, config.key_width());
  make_stream(v_, config.value_width());
  b_proj_.shape = {config.num_householder * heads, D};
  a_proj_.shape = {heads, D};
  A_log_ = {.shape = {heads}, .init = Init::kDecayRate, .value = {}};
  dt_bias_ = {.shape = {heads}, .init = Init::kTimeStep, .value = {}};
  g_proj_.shape = {config.output_width(), D};
  o_norm_ = {.shape = {config.value_head_dim()}, .init = Init::kOnes, .value = {}};
  o_proj_.shape = {D, config.output_width()};
}

StateShapes DeltaProductLayer::state_shapes() const {
  StateShapes shapes = {
      {"recurrent", {config_.value_heads(), config_.head_dim, config_.value_head_dim()}}};
  if (config_.use_short_conv) {
    shapes["conv_q"] = {config_.conv_size, config_.query_width()};
    shapes["conv_k"] = {config_.conv_size, config_.key_width()};
    shapes["conv_v"] = {config_.conv_size, config_.value_width()};
  }
  return shapes;
}

void DeltaProductLayer::list_parameters(const std::string& prefix, NamedParameters& list) {
  const auto add = [&](const char* name, Parameter& parameter) {
    list.push_back({prefix + name, &parameter});
  };
  const auto add_conv = [&](const std::string& name, Stream& stream) {
    list.push_back({prefix + name + ".weight", &stream.conv_weight});
    if (config_.conv_bias) list.push_back({prefix + name + ".bias", &stream.conv_bias});
  };
  add("q_proj.weight", q_.projection);
  add("k_proj.weight", k_.projection);
  add("v_proj.weight", v_.projection);
  add("b_proj.weight", b_proj_);
  if (config_.use_forget_gate) {
    add("a_proj.weight", a_proj_);
    add("A_log", A_log_);
    add("dt_bias", dt_bias_);
  }
  if (config_.use_short_conv) {
    add_conv("q_conv1d", q_);
    add_conv("k_conv1d", k_);
    add_conv("v_conv1d", v_);
  }
  if (config_.use_output_gate) add("g_proj.weight", g_proj_);
  add("o_norm.weight", o_norm_);
  add("o_proj.weight", o_proj_);
}

// silu(conv(projection x)) with, for queries and keys, each head's part brought to unit length.
at::Tensor DeltaProductLayer::stream(const at::Tensor& x, const Stream& stream, const char* history,
                                     bool unit_heads, const MixerContext& context) const {
  const at::Tensor projected = dp::linear(x, stream.projection.value);
  ShortConvOptions options;
  options.cu_seqlens = context.cu_seqlens;
  options.head_size = unit_heads ? config_.head_dim : 0;
  if (!config_.use_short_conv) return short_conv(projected, options);
  options.weight = stream.conv_weight.value.squeeze(1);
  if (config_.conv_bias) options.bias = stream.conv_bias.value;
  if (context.state == nullptr) return short_conv(projected, options);
  if (const auto found = context.state->find(history); found != context.state->end())
    options.history = found->second;
  at::Tensor y = short_conv(projected, options);
  (*context.state)[history] =
      conv_history(projected, config_.conv_size, options.history, context.cu_seqlens);
  return y;
}

// -exp(A_log) softplus(a_proj x + dt_bias), one per value head and token.
at::Tensor DeltaProductLayer::log_gate(const at::Tensor& x) const {
  const at::Tensor step = at::softplus(dp::linear(x, a_proj_.value) + dt_bias_.value);
  return -at::exp(A_log_.value) * step;
}

at::Tensor DeltaProductLayer::forward(const at::Tensor& x, const MixerContext& context) const {
  const int64_t B = x.size(0), T = x.size(1), N = config_.num_householder, H = config_.num_heads;
  const int64_t K = config_.head_dim, V = config_.value_head_dim(), heads = config_.value_heads();
  at::Tensor q = stream(x, q_, "conv_q", true, context).view({B, T, H, K});
  at::Tensor k = stream(x, k_, "conv_k", true, context).view({B, T, N, H, K});
  const at::Tensor v = stream(x, v_, "conv_v", false, context).view({B, T, N, heads, V});
  if (heads != H) {  // a query and key head serves several value heads
    q = q.repeat_interleave(heads / H, 2);
    k = k.repeat_interleave(heads / H, 3);
  }
  at::Tensor beta = at::sigmoid(dp::linear(x, b_proj_.value)).view({B, T, N, heads});
  if (config_.allow_neg_eigval) beta = beta * 2;

  DeltaProductOptions options;
  options.cu_seqlens = context.cu_seqlens;
  if (config_.use_forget_gate) options.log_gate = log_gate(x);
  if (context.state != nullptr) {
    const auto found = context.state->find("recurrent");
    if (found != context.state->end()) options.state = found->second;
  }
  DeltaProductOutput output = delta_product(q, k, v, beta, options);
  if (context.state != nullptr) (*context.state)["recurrent"] = std::move(output.state);

  const at::Tensor o =
      config_.use_output_gate
          ? gated_rms_norm(output.o, dp::linear(x, g_proj_.value).view({B, T, heads, V}),
                           o_norm_.value, config_.norm_eps)
          : rms_norm(output.o, o_norm_.value, config_.norm_eps);
  return dp::linear(o.view({B, T, heads * V}), o_proj_.value);
}

}  // namespace dp
