#include "nn/rivals/mlstm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/dplr.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"

namespace dp {
namespace {

constexpr double kLargestExponent = 80;  // of float32, with room for products

// The value before each token: `x` moved on by one token, with `first` [S,H] before each sequence.
at::Tensor shifted(const at::Tensor& x, const at::Tensor& first,
                   const c10::optional<at::Tensor>& cu_seqlens) {
  if (!cu_seqlens) return at::cat({first.unsqueeze(1), x.slice(1, 0, x.size(1) - 1)}, 1);
  const at::Tensor starts = cu_seqlens->slice(0, 0, -1).to(at::kLong);
  const at::Tensor nonempty = cu_seqlens->diff() > 0;
  at::Tensor y = at::cat({at::zeros_like(x.slice(1, 0, 1)), x.slice(1, 0, x.size(1) - 1)}, 1);
  y.squeeze(0).index_copy_(0, starts.index({nonempty}), first.index({nonempty}));
  return y;
}

}  // namespace

at::Tensor running_maximum(const at::Tensor& log_f, const at::Tensor& log_i,
                           const c10::optional<at::Tensor>& before,
                           const c10::optional<at::Tensor>& cu_seqlens) {
  const at::NoGradGuard no_grad;
  const int64_t B = log_f.size(0), T = log_f.size(1), H = log_f.size(2);
  std::vector<int64_t> offsets;
  if (cu_seqlens) {
    const at::Tensor ends = cu_seqlens->to(at::kLong).contiguous();
    offsets.assign(ends.data_ptr<int64_t>(), ends.data_ptr<int64_t>() + ends.numel());
  } else {
    for (int64_t b = 0; b <= B; ++b) offsets.push_back(b * T);
  }
  const at::Tensor f = log_f.detach().to(at::kFloat).contiguous(),
                   i = log_i.detach().to(at::kFloat).contiguous();
  at::Tensor m = at::empty({B, T, H}, at::kFloat);
  const at::Tensor first = before ? before->to(at::kFloat).contiguous() : at::Tensor();
  const float *f_at = f.data_ptr<float>(), *i_at = i.data_ptr<float>();
  auto* m_at = m.data_ptr<float>();
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (int64_t t = offsets[s]; t < offsets[s + 1]; ++t) {
      for (int64_t h = 0; h < H; ++h) {
        const float previous = t > offsets[s] ? m_at[(t - 1) * H + h]
                               : first.defined()
                                   ? first.data_ptr<float>()[static_cast<int64_t>(s) * H + h]
                                   : -std::numeric_limits<float>::infinity();
        m_at[t * H + h] = std::max(f_at[t * H + h] + previous, i_at[t * H + h]);
      }
    }
  }
  return m.to(log_f.scalar_type());
}

MlstmMixer::MlstmMixer(const ModelConfig& config)
    : config_(config), q_(config, 'q', config.query_width()), k_(config, 'k', config.query_width()) {
  const int64_t D = config.hidden_size, H = config.num_heads, V = config.value_head_dim();
  v_proj_ = g_proj_ = Parameter::matrix({H * V, D});
  input_gate_ = forget_gate_ = Parameter::matrix({H, D});
  input_bias_ = Parameter::vector({H}, Init::kZeros);
  forget_bias_ = Parameter::vector({H}, Init::kForgetBias);
  o_norm_ = Parameter::vector({V}, Init::kOnes);
  o_proj_ = Parameter::matrix({D, H * V});
}

StateShapes MlstmMixer::state_shapes() const {
  const int64_t H = config_.num_heads;
  StateShapes shapes = {{"recurrent", {H, config_.head_dim, config_.value_head_dim() + 1}},
                        {"maximum", {H}}};
  for (const ConvStream* stream : {&q_, &k_}) stream->add_state(shapes);
  return shapes;
}

int64_t MlstmMixer::recurrence_flops() const {
  return 5 * config_.num_heads * config_.head_dim * (config_.value_head_dim() + 1);
}

void MlstmMixer::list_parameters(const std::string& prefix, NamedParameters& list) {
  for (ConvStream* stream : {&q_, &k_}) stream->list_projection(prefix, list);
  list.push_back({prefix + "v_proj.weight", &v_proj_});
  for (ConvStream* stream : {&q_, &k_}) stream->list_conv(prefix, list);
  list.push_back({prefix + "igate.weight", &input_gate_});
  list.push_back({prefix + "igate.bias", &input_bias_});
  list.push_back({prefix + "fgate.weight", &forget_gate_});
  list.push_back({prefix + "fgate.bias", &forget_bias_});
  if (config_.use_output_gate) list.push_back({prefix + "g_proj.weight", &g_proj_});
  list.push_back({prefix + "o_norm.weight", &o_norm_});
  list.push_back({prefix + "o_proj.weight", &o_proj_});
}

at::Tensor MlstmMixer::forward(const at::Tensor& x, const MixerContext& context) const {
  const int64_t B = x.size(0), T = x.size(1), H = config_.num_heads, K = config_.head_dim,
                V = config_.value_head_dim();
  const auto stream = [&](const ConvStream& s) {
    return config_.use_short_conv ? s.forward(x, 0, context) : s.project(x);
  };
  const at::Tensor q = stream(q_).view({B, T, H, K});
  const at::Tensor k = stream(k_).view({B, T, H, K}) / std::sqrt(static_cast<double>(K));
  const at::Tensor v = dp::linear(x, v_proj_.value).view({B, T, 1, H, V});
  const at::Tensor log_i = dp::linear(x, input_gate_.value) + input_bias_.value;
  const at::Tensor log_f = at::log_sigmoid(dp::linear(x, forget_gate_.value) + forget_bias_.value);

  // i and f relative to m. Before the first token m is -infinity: f is 0 there, and nothing to forget.
  const c10::optional<at::Tensor> before = context.find("maximum");
  const at::Tensor m = running_maximum(log_f, log_i, before, context.cu_seqlens);
  const int64_t S = context.cu_seqlens ? context.cu_seqlens->numel() - 1 : B;
  const at::Tensor first =
      before ? *before : at::full({S, H}, -std::numeric_limits<double>::infinity(), m.options());
  const at::Tensor f = at::exp(log_f + (shifted(m, first, context.cu_seqlens) - m));
  const at::Tensor i = at::exp(log_i - m);

  DplrOptions options;
  options.cu_seqlens = context.cu_seqlens;
  options.state = context.find("recurrent");
  const at::Tensor values = at::cat({v, at::ones({B, T, 1, H, 1}, v.options())}, -1);
  const DplrOutput output = dplr(q, f.view({B, T, 1, H, 1}).expand({B, T, 1, H, K}),
                                 (k * i.unsqueeze(-1)).unsqueeze(2), values, options);
  context.keep("recurrent", output.state);
  if (context.state != nullptr) {
    at::Tensor last = m.select(1, -1);
    if (context.cu_seqlens) {
      const at::Tensor ends = context.cu_seqlens->slice(0, 1).to(at::kLong) - 1;
      const at::Tensor empty = context.cu_seqlens->diff() == 0;
      last = at::where(empty.unsqueeze(1), first, m.squeeze(0).index_select(0, ends.clamp_min(0)));
    }
    context.keep("maximum", last.contiguous());
  }
  const at::Tensor least = at::exp((-m).clamp_max(kLargestExponent)).unsqueeze(-1);
  const at::Tensor h =
      output.o.narrow(-1, 0, V) / at::maximum(output.o.narrow(-1, V, 1).abs(), least);
  at::Tensor normed = rms_norm(h.contiguous(), o_norm_.value, config_.norm_eps).flatten(2);
  if (config_.use_output_gate) normed = normed * at::sigmoid(dp::linear(x, g_proj_.value));
  return dp::linear(normed, o_proj_.value);
}

std::unique_ptr<TokenMixer> make_mlstm_mixer(const ModelConfig& config) {
  return std::make_unique<MlstmMixer>(config);
}

}  // namespace dp
