#include "nn/rivals/transformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check_input.h"
#include "ops/linear.h"

namespace dp {
namespace {

constexpr int64_t kQueries = 256;  // at a time: memory for scores is this times the keys

}  // namespace

TransformerMixer::TransformerMixer(const ModelConfig& config) : config_(config) {
  const int64_t D = config.hidden_size, H = config.num_heads, V = config.value_head_dim();
  q_proj_ = k_proj_ = Parameter::matrix({config.query_width(), D});
  v_proj_ = Parameter::matrix({H * V, D});
  o_proj_ = Parameter::matrix({D, H * V});
}

StateShapes TransformerMixer::state_shapes() const {
  return {{"k", {kPerToken, config_.query_width()}},
          {"v", {kPerToken, config_.num_heads * config_.value_head_dim()}}};
}

// Scores and their average, per key; the count for one key, since it grows with the sequence.
int64_t TransformerMixer::recurrence_flops() const {
  return 2 * config_.num_heads * (config_.head_dim + config_.value_head_dim());
}

void TransformerMixer::list_parameters(const std::string& prefix, NamedParameters& list) {
  list.push_back({prefix + "q_proj.weight", &q_proj_});
  list.push_back({prefix + "k_proj.weight", &k_proj_});
  list.push_back({prefix + "v_proj.weight", &v_proj_});
  list.push_back({prefix + "o_proj.weight", &o_proj_});
}

// x [B,T,H,K], tokens at first_position and after. Angles in double: positions may be in the millions.
at::Tensor TransformerMixer::turned(const at::Tensor& x, int64_t first_position) const {
  const int64_t T = x.size(1), half = config_.head_dim / 2;
  const at::Tensor position = at::arange(first_position, first_position + T, at::kDouble);
  const at::Tensor exponent = at::arange(half, at::kDouble) / static_cast<double>(half);
  const at::Tensor angle =
      position.unsqueeze(1) * at::pow(config_.transformer.rope_theta, -exponent).unsqueeze(0);
  const at::Tensor cos = at::cos(angle).to(x.scalar_type()).unsqueeze(1),
                   sin = at::sin(angle).to(x.scalar_type()).unsqueeze(1);  // [T,1,K/2]
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, -1);
}

at::Tensor TransformerMixer::attend(const at::Tensor& x, at::Tensor& k, at::Tensor& v) const {
  const int64_t B = x.size(0), T = x.size(1), H = config_.num_heads, K = config_.head_dim,
                V = config_.value_head_dim(), before = k.defined() ? k.size(1) : 0;
  const auto heads = [&](const Parameter& projection, int64_t width) {
    return dp::linear(x, projection.value).view({B, T, H, width});
  };
  const at::Tensor q =
      turned(heads(q_proj_, K), before).transpose(1, 2) / std::sqrt(static_cast<double>(K));
  const at::Tensor new_k = turned(heads(k_proj_, K), before).flatten(2);
  const at::Tensor new_v = heads(v_proj_, V).flatten(2);
  k = before > 0 ? at::cat({k, new_k}, 1) : new_k;
  v = before > 0 ? at::cat({v, new_v}, 1) : new_v;
  const at::Tensor keys = k.view({B, before + T, H, K}).permute({0, 2, 3, 1}),
                   values = v.view({B, before + T, H, V}).transpose(1, 2);
  std::vector<at::Tensor> parts = {at::zeros({B, H, 0, V}, x.options())};
  for (int64_t begin = 0; begin < T; begin += kQueries) {
    const int64_t end = std::min(T, begin + kQueries), seen = before + end;
    at::Tensor scores = at::matmul(q.slice(2, begin, end), keys.slice(3, 0, seen));
    if (end - begin > 1) {  // the last query sees all keys, those before it fewer
      const at::Tensor hidden =
          at::ones({end - begin, seen}, x.options().dtype(at::kBool)).triu(before + begin + 1);
      scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
    }
    parts.push_back(at::matmul(at::softmax(scores, -1), values.slice(2, 0, seen)));
  }
  return dp::linear(at::cat(parts, 2).transpose(1, 2).reshape({B, T, H * V}), o_proj_.value);
}

at::Tensor TransformerMixer::forward(const at::Tensor& x, const MixerContext& context) const {
  at::Tensor k = context.find("k").value_or(at::Tensor()),
             v = context.find("v").value_or(at::Tensor());
  if (!context.cu_seqlens) {
    const at::Tensor y = attend(x, k, v);
    context.keep("k", k), context.keep("v", v);
    return y;
  }
  const at::Tensor ends = context.cu_seqlens->to(at::kLong).contiguous();
  const auto* offsets = ends.data_ptr<int64_t>();
  std::vector<at::Tensor> parts = {x.slice(1, 0, 0)}, all_k, all_v;
  for (int64_t s = 0; s + 1 < ends.numel(); ++s) {
    at::Tensor one_k = k.defined() ? k.slice(0, s, s + 1) : k,
               one_v = v.defined() ? v.slice(0, s, s + 1) : v;
    parts.push_back(attend(x.slice(1, offsets[s], offsets[s + 1]), one_k, one_v));
    all_k.push_back(one_k), all_v.push_back(one_v);
    DP_CHECK_INPUT(context.state == nullptr || one_k.size(1) == all_k[0].size(1),
                   "transformer: packed sequences that carry a cache must be equally long, got ",
                   all_k[0].size(1), " and ", one_k.size(1), " tokens.");
  }
  if (context.state != nullptr && !all_k.empty()) {
    context.keep("k", at::cat(all_k, 0)), context.keep("v", at::cat(all_v, 0));
  }
  return at::cat(parts, 1);
}

std::unique_ptr<TokenMixer> make_transformer_mixer(const ModelConfig& config) {
  return std::make_unique<TransformerMixer>(config);
}

}  // namespace dp
