#include "analysis/transition.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <complex>

#include "nn/test_models.h"

namespace dp::analysis {
namespace {

std::complex<double> at_place(const at::Tensor& values, int64_t i) {
  const auto value = values[0].contiguous().data_ptr<c10::complex<double>>()[i];
  return {value.real(), value.imag()};
}

// Two reflections at an angle phi turn their plane by 2 phi and leave the rest alone; a gate shrinks all.
TEST(Transition, TwoReflectionsAreARotation) {
  for (const double phi : {0.0, 0.3, 0.7853981633974483, 1.2}) {
    for (const double gate : {1.0, 0.5}) {
      SCOPED_TRACE(testing::Message() << phi << " " << gate);
      at::Tensor k = at::zeros({1, 2, 4}, at::kDouble);
      k[0][0][0] = 1;
      k[0][1][0] = std::cos(phi);
      k[0][1][1] = std::sin(phi);
      const at::Tensor gates = at::full({1}, gate, at::kDouble);
      const at::Tensor A = transition_matrices(k, at::full({1, 2}, 2.0, at::kDouble), gates);
      // The key that acts first is mirrored to -e0; mirroring that in the second turns it by 2 phi.
      EXPECT_NEAR(A[0][0][0].item<double>(), gate * std::cos(2 * phi), 1e-12);
      EXPECT_NEAR(A[0][1][0].item<double>(), gate * std::sin(2 * phi), 1e-12);
      const at::Tensor values = eigenvalues(A, gates);
      const auto expected = gate * std::polar(1.0, 2 * phi);
      EXPECT_NEAR(std::abs(at_place(values, 0) - expected), 0, 1e-12);
      EXPECT_NEAR(std::abs(at_place(values, 1) - std::conj(expected)), 0, 1e-12);
      EXPECT_NEAR(std::abs(at_place(values, 2) - gate), 0, 1e-12);
      EXPECT_NEAR(std::abs(at_place(values, 3) - gate), 0, 1e-12);
    }
  }
}

TEST(Transition, OneFactorHasTheEigenvalueOneMinusBeta) {
  at::Tensor k = at::zeros({1, 1, 3}, at::kDouble);
  k[0][0][2] = 1;
  const at::Tensor gate = at::ones({1}, at::kDouble);
  const at::Tensor A = transition_matrices(k, at::full({1, 1}, 1.25, at::kDouble), gate);
  EXPECT_NEAR(std::abs(at_place(eigenvalues(A, gate), 0) + 0.25), 0, 1e-12);
}

// The model itself says what its transition is: the states after a token differ by A times as much as
// the states before it did. With every option of a layer.
TEST(Transition, IsWhatTheModelDoesToItsState) {
  for (const ModelConfig& config : some_configs()) {
    SCOPED_TRACE(describe(config));
    const c10::InferenceMode inference;
    const LanguageModel model = random_model(config);
    const at::Tensor ids = random_ids(config, 2, 5);
    const int64_t K = config.head_dim, V = config.value_head_dim(), H = config.value_heads();
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      const Factors factors = layer_factors(model, layer, ids);
      ForwardOptions options;
      ModelState state;
      options.state = &state;
      model.features(ids.slice(1, 0, 4), options);
      // What the layer's last token changes: only this layer's state, so that its input stays.
      ModelState other = state.clone();
      at::Tensor& before = other.layers[static_cast<size_t>(layer)]["recurrent"];
      const at::Tensor change = at::randn({2, H, K, V});
      before = before + change;
      model.features(ids.slice(1, 4), options);
      options.state = &other;
      model.features(ids.slice(1, 4), options);
      const auto after = [&](const ModelState& s) {
        return s.layers[static_cast<size_t>(layer)].at("recurrent");
      };
      const at::Tensor changed = after(other) - after(state);
      for (int64_t h = 0; h < H; ++h) {
        const at::Tensor A = transition_matrices(
            factors.k.select(1, 4).select(2, h), factors.beta.select(1, 4).select(2, h),
            at::exp(factors.log_gate.select(1, 4).select(1, h)));
        const at::Tensor expected = at::bmm(A, change.select(1, h).to(at::kDouble));
        EXPECT_LT((changed.select(1, h) - expected).abs().max().item<double>(), 1e-5);
      }
    }
  }
}

TEST(Transition, DependsOnTheTokenAloneInAFirstLayerWithoutConvolution) {
  ModelConfig config;
  config.use_short_conv = false;
  EXPECT_TRUE(depends_on_token_alone(config, 0));
  EXPECT_FALSE(depends_on_token_alone(config, 1));
  config.use_short_conv = true;
  EXPECT_FALSE(depends_on_token_alone(config, 0));
}

}  // namespace
}  // namespace dp::analysis
