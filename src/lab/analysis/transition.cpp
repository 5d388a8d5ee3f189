#include "analysis/transition.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <complex>

#include "base/error.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/short_conv.h"

namespace dp::analysis {

bool depends_on_token_alone(const ModelConfig& config, int64_t layer) {
  return layer == 0 && !config.use_short_conv;
}

// Computes what DeltaProductLayer::forward does on its way; the test compares with the states that
// the model itself arrives at.
Factors layer_factors(const LanguageModel& model, int64_t layer, const at::Tensor& tokens) {
  const ModelConfig& c = model.config();
  std::vector<at::Tensor> residuals;
  ForwardOptions forward;
  forward.residuals = &residuals;
  model.features(tokens, forward);
  const auto values = model.named_values();
  const auto weight = [&](const char* name) {
    const std::string full = c10::str("model.layers.", layer, ".", name);
    for (const auto& [key, value] : values)
      if (key == full) return value;
    throw InputError(
        c10::str("layer ", layer, " of the model is no DeltaProduct layer: it has no ", full));
  };

  const int64_t B = tokens.size(0), T = tokens.size(1), N = c.num_householder, H = c.num_heads;
  const int64_t K = c.head_dim, heads = c.value_heads();
  const at::Tensor x =
      rms_norm(residuals.at(static_cast<size_t>(layer)), weight("attn_norm.weight"), c.norm_eps);
  ShortConvOptions options;
  options.head_size = K;
  if (c.use_short_conv) options.weight = weight("attn.k_conv1d.weight").squeeze(1);
  if (c.use_short_conv && c.conv_bias) options.bias = weight("attn.k_conv1d.bias");
  Factors factors;
  factors.k = short_conv(dp::linear(x, weight("attn.k_proj.weight")), options)
                  .view({B, T, N, H, K})
                  .repeat_interleave(heads / H, 3);
  factors.beta = at::sigmoid(dp::linear(x, weight("attn.b_proj.weight"))).view({B, T, N, heads});
  if (c.allow_neg_eigval) factors.beta = factors.beta * 2;
  factors.log_gate = at::zeros({B, T, heads});
  if (c.use_forget_gate)
    factors.log_gate =
        -at::exp(weight("attn.A_log")) *
        at::softplus(dp::linear(x, weight("attn.a_proj.weight")) + weight("attn.dt_bias"));
  return factors;
}

at::Tensor transition_matrices(const at::Tensor& k, const at::Tensor& beta,
                               const at::Tensor& gate) {
  const int64_t R = k.size(0), F = k.size(1), K = k.size(2);
  const at::Tensor keys = k.to(at::kDouble), betas = beta.to(at::kDouble);
  at::Tensor A = at::eye(K, at::kDouble).repeat({R, 1, 1}) * gate.to(at::kDouble).view({R, 1, 1});
  for (int64_t j = 0; j < F; ++j) {
    const at::Tensor key = keys.select(1, j).unsqueeze(2);  // [R,K,1]
    A = A - betas.select(1, j).view({R, 1, 1}) * key * at::bmm(key.transpose(1, 2), A);
  }
  return A;
}

at::Tensor eigenvalues(const at::Tensor& matrices, const at::Tensor& gate) {
  using Complex = std::complex<double>;
  at::Tensor values = at::linalg_eigvals(matrices.to(at::kDouble)).contiguous();
  const at::Tensor gates = gate.to(at::kDouble).contiguous();
  const int64_t R = values.size(0), K = values.size(1);
  auto* row = reinterpret_cast<Complex*>(values.data_ptr<c10::complex<double>>());
  for (int64_t r = 0; r < R; ++r, row += K) {
    const double g = gates.data_ptr<double>()[r];
    std::sort(row, row + K, [&](const Complex& a, const Complex& b) {
      const double to_a = std::abs(a - g), to_b = std::abs(b - g);
      return to_a != to_b ? to_a > to_b : a.imag() > b.imag();
    });
  }
  return values;
}

}  // namespace dp::analysis
