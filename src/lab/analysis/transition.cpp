#include "analysis/transition.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <complex>

#include "base/error.h"
#include "nn/delta_product_layer.h"

namespace dp::analysis {

bool depends_on_token_alone(const ModelConfig& config, int64_t layer) {
  return layer == 0 && !config.use_short_conv;
}

Factors layer_factors(const LanguageModel& model, int64_t layer, const at::Tensor& tokens) {
  const auto* mixer = dynamic_cast<const DeltaProductLayer*>(&model.mixer(layer));
  if (mixer == nullptr) throw InputError(c10::str("layer ", layer, " of the model is not a DeltaProduct layer"));
  std::vector<at::Tensor> residuals;
  ForwardOptions options;
  options.residuals = &residuals;
  model.features(tokens, options);
  const RecurrenceInputs inputs =
      mixer->recurrence_inputs(model.mixer_input(layer, residuals.at(static_cast<size_t>(layer))), {});
  return {inputs.k, inputs.beta,
          inputs.log_gate ? *inputs.log_gate
                          : at::zeros({tokens.size(0), tokens.size(1), model.config().value_heads()})};
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
