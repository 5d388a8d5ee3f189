#include "nn/language_model.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/error.h"
#include "nn/test_models.h"

namespace dp {
namespace {

double largest(const at::Tensor& x) { return x.abs().max().item<double>(); }

/// Largest difference over the largest expected element.
double error(const at::Tensor& got, const at::Tensor& want) {
  return largest(got.to(at::kDouble) - want.to(at::kDouble)) / largest(want);
}

using Weights = std::map<std::string, at::Tensor>;

/// How much result(weights), in float64, changes when weights do by float32's precision: where a head reads next to nothing
/// its norm magnifies rounding. measure_error(got, want) compares two results.
template <class Result, class Error>
double sensitivity(const LanguageModel& model, const Result& result, const Error& measure_error) {
  const Weights weights = named_weights(model);
  const auto want = result(weights);
  const at::Generator random = at::detail::createCPUGenerator(5);
  double most = 0;
  for (int i = 0; i < 4; ++i) {
    Weights moved;
    for (const auto& [name, value] : weights)
      moved[name] = value * (1 + 1.2e-7 * at::randn(value.sizes(), random, at::kDouble));
    most = std::max(most, measure_error(result(moved), want));
  }
  return most;
}

/// What logits of these tokens may differ by in float32.
double tolerance(const LanguageModel& model, const at::Tensor& ids) {
  const auto logits = [&](const Weights& weights) {
    return reference_logits(model.config(), weights, ids);
  };
  return std::max(1e-5, 10 * sensitivity(model, logits, error));
}

struct ReferenceGradients {
  double loss;
  at::Tensor logits;
  std::map<std::string, at::Tensor> gradients;
};

// By torch's differentiation of the model's definition.
ReferenceGradients reference_gradients(const ModelConfig& config, Weights weights,
                                       const at::Tensor& ids, const at::Tensor& targets) {
  std::vector<at::Tensor> leaves;
  for (auto& [name, value] : weights) leaves.push_back(value = value.detach().requires_grad_());
  const at::Tensor logits = reference_logits(config, weights, ids);
  const at::Tensor loss = at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
  const std::vector<at::Tensor> gradients = torch::autograd::grad({loss}, leaves);
  ReferenceGradients result{loss.item<double>(), logits, {}};
  size_t i = 0;
  for (const auto& [name, value] : weights) result.gradients[name] = gradients[i++];
  return result;
}

// The error of a weight's gradient over its largest element; or over a hundredth of the largest of all weights where that is
// more: some gradients are zero but for rounding, as that of a bias which a normaliser takes out again.
double gradient_error(const std::string& name, const at::Tensor& got, const Weights& want) {
  double size = largest(want.at(name));
  for (const auto& [other, value] : want) size = std::max(size, 0.01 * largest(value));
  return largest(got.to(at::kDouble) - want.at(name)) / size;
}

double largest_gradient_error(const Weights& got, const Weights& want) {
  double most = 0;
  for (const auto& [name, value] : got) most = std::max(most, gradient_error(name, value, want));
  return most;
}

TEST(LanguageModel, EqualsItsDefinitionInFloat64) {
  for (const ModelConfig& config : some_configs_and_rivals()) {
    SCOPED_TRACE(describe(config));
    const LanguageModel model = random_model(config);
    const at::Tensor ids = random_ids(config, 3, 37);
    const at::Tensor want = reference_logits(config, named_weights(model), ids);
    EXPECT_LT(error(model.logits(model.features(ids)), want), tolerance(model, ids));
  }
}

TEST(LanguageModel, GradientsEqualThoseOfItsDefinition) {
  for (const ModelConfig& config : some_configs_and_rivals()) {
    SCOPED_TRACE(describe(config));
    LanguageModel model = random_model(config);
    make_trainable(model);
    const at::Tensor ids = random_ids(config, 2, 22);
    at::Tensor targets = random_ids(config, 2, 22).flip(1).contiguous();
    targets[0][3] = -100;  // not counted
    const LinearCrossEntropyOutput output = model.loss(model.features(ids), targets);
    torch::autograd::backward({output.loss}, {});

    const auto [loss, logits, want] = reference_gradients(config, named_weights(model), ids, targets);
    EXPECT_NEAR(output.loss.item<double>(), loss, 1e-5);
    EXPECT_TRUE(at::equal(output.predicted, logits.flatten(0, 1).argmax(-1)));
    const auto gradients = [&](const Weights& weights) {
      return reference_gradients(config, weights, ids, targets).gradients;
    };
    const double most = std::max(1e-5, 3 * sensitivity(model, gradients, largest_gradient_error));
    for (const auto& [name, value] : model.named_values())
      EXPECT_LT(gradient_error(name, value.grad(), want), most) << name;
  }
}

TEST(LanguageModel, StepsAndBlocksEqualTheWholeSequence) {
  const at::NoGradGuard no_grad;
  for (const ModelConfig& config : some_configs_and_rivals()) {
    SCOPED_TRACE(describe(config));
    const LanguageModel model = random_model(config);
    const at::Tensor ids = random_ids(config, 2, 21);
    ModelState whole;
    ForwardOptions options;
    options.state = &whole;
    const at::Tensor want = model.logits(model.features(ids, options));
    const double most = tolerance(model, ids);
    for (const int64_t block : {1, 2, 5, 16}) {
      ModelState state;
      options.state = &state;
      std::vector<at::Tensor> parts;
      for (int64_t t = 0; t < ids.size(1); t += block)
        parts.push_back(model.logits(
            model.features(ids.slice(1, t, std::min(t + block, ids.size(1))), options)));
      EXPECT_LT(error(at::cat(parts, 1), want), most) << "blocks of " << block;
      for (size_t layer = 0; layer < state.layers.size(); ++layer)
        for (const auto& [name, tensor] : state.layers[layer])
          EXPECT_LT(error(tensor, whole.layers[layer].at(name)), 1e-5) << name;
    }
  }
}

TEST(LanguageModel, PackedSequencesDoNotSeeEachOther) {
  const at::NoGradGuard no_grad;
  for (const ModelConfig& config : some_configs_and_rivals()) {
    SCOPED_TRACE(describe(config));
    const LanguageModel model = random_model(config);
    const at::Tensor ids = random_ids(config, 1, 20);
    ForwardOptions options;
    options.cu_seqlens = at::tensor({0, 1, 8, 10, 20}, at::kLong);
    const at::Tensor packed = model.logits(model.features(ids, options));
    for (const auto& [begin, end] : {std::pair(0, 1), {1, 8}, {8, 10}, {10, 20}}) {
      const at::Tensor alone = model.logits(model.features(ids.slice(1, begin, end)));
      EXPECT_LT(error(packed.slice(1, begin, end), alone),
                tolerance(model, ids.slice(1, begin, end)))
          << "from token " << begin;
    }
  }
}

// The same arithmetic in the same order, so the same bits.
TEST(LanguageModel, RecomputedActivationsGiveTheSameGradients) {
  for (const int64_t layers : {1, 2, 5, 9}) {
    ModelConfig config = some_configs()[7];
    config.num_hidden_layers = layers;
    LanguageModel model = random_model(config);
    make_trainable(model);
    const at::Tensor ids = random_ids(config, 2, 22);
    const auto gradients = [&](bool recompute) {
      for (const auto& [name, value] : model.named_values()) value.mutable_grad() = at::Tensor();
      ForwardOptions options;
      options.recompute = recompute;
      torch::autograd::backward({model.loss(model.features(ids, options), ids).loss}, {});
      std::vector<at::Tensor> all;
      for (const auto& [name, value] : model.named_values()) all.push_back(value.grad().clone());
      return all;
    };
    const std::vector<at::Tensor> kept = gradients(false), again = gradients(true);
    for (size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(at::equal(kept[i], again[i])) << model.named_values()[i].first;
  }
}

TEST(LanguageModel, PaddingOnEitherSideChangesNothing) {
  const at::NoGradGuard no_grad;
  const ModelConfig config = some_configs()[13];
  const LanguageModel model = random_model(config);
  const at::Tensor ids = random_ids(config, 4, 9);
  const at::Tensor mask = at::ones_like(ids);
  mask[0].slice(0, 0, 4).zero_();  // left
  mask[1].slice(0, 6).zero_();     // right
  mask[2].zero_();                 // nothing but padding
  const at::Tensor logits = model.padded_logits(ids, mask);
  const auto alone = [&](int64_t row, int64_t begin, int64_t end) {
    return model.logits(model.features(ids[row].slice(0, begin, end).unsqueeze(0))).squeeze(0);
  };
  EXPECT_LT(error(logits[0].slice(0, 4), alone(0, 4, 9)), 1e-5);
  EXPECT_LT(error(logits[1].slice(0, 0, 6), alone(1, 0, 6)), 1e-5);
  EXPECT_LT(error(logits[3], alone(3, 0, 9)), 1e-5);
  EXPECT_EQ(largest(logits[2]), 0);
  EXPECT_EQ(largest(logits[0].slice(0, 0, 4)), 0);
}

TEST(LanguageModel, BFloat16MatricesAreUsedExactly) {
  const at::NoGradGuard no_grad;
  for (const int i : {7, 13}) {
    LanguageModel model = random_model(some_configs()[i]);
    for (const auto& [name, parameter] : model.parameters())
      if (parameter->shape.size() == 2) parameter->value = parameter->value.to(at::kBFloat16);
    const at::Tensor want =
        reference_logits(model.config(), named_weights(model), random_ids(model.config(), 2, 30));
    const at::Tensor got = model.logits(model.features(random_ids(model.config(), 2, 30)));
    EXPECT_LT(error(got, want), 1e-5);

    const at::Tensor ids = random_ids(model.config(), 2, 30);
    const at::Tensor loss = at::cross_entropy_loss(want.flatten(0, 1), ids.flatten());
    EXPECT_NEAR(model.loss(model.features(ids), ids).loss.item<double>(), loss.item<double>(),
                1e-5);
  }
}

TEST(LanguageModel, SmoothedLabels) {
  LanguageModel model = random_model(some_configs()[0]);
  make_trainable(model);
  const at::Tensor ids = random_ids(model.config(), 2, 30);
  at::Tensor targets = ids.clone();
  targets[1][4] = -100;
  const at::Tensor features = model.features(ids).detach().requires_grad_();
  const auto gradients = [&](const at::Tensor& loss) {
    return torch::autograd::grad({loss}, {features, model.named_values().back().second}, {},
                                 c10::nullopt, false, /*allow_unused=*/true);
  };
  const at::Tensor want = at::cross_entropy_loss(model.logits(features).flatten(0, 1),
                                                 targets.flatten(), {}, at::Reduction::Mean, -100,
                                                 /*label_smoothing=*/0.3),
                   got = model.loss(features, targets, 0.3).loss;
  EXPECT_NEAR(got.item<double>(), want.item<double>(), 1e-5);
  EXPECT_GT(std::abs(got.item<double>() - model.loss(features, targets).loss.item<double>()), 1e-3);
  const auto left = gradients(got), right = gradients(want);
  for (size_t i = 0; i < left.size(); ++i) {
    ASSERT_TRUE(left[i].defined());
    EXPECT_LT(error(left[i], right[i]), 1e-5);
  }
}

TEST(LanguageModel, InitialWeightsFollowFlasRules) {
  ModelConfig config;
  config.hidden_size = 64;
  config.num_hidden_layers = 1;
  config.num_heads = 64;
  config.head_dim = 8;
  config.vocab_size = 1000;
  config.use_forget_gate = true;
  LanguageModel model(config);
  initialise(model, 3);
  std::map<std::string, at::Tensor> w = named_weights(model);
  EXPECT_NEAR(w.at("model.embeddings.weight").std().item<double>(), 0.02, 3e-4);
  EXPECT_NEAR(w.at("model.layers.0.attn.k_conv1d.weight").std().item<double>(), 0.02, 1e-3);
  EXPECT_EQ(largest(w.at("model.norm.weight") - 1), 0);
  const at::Tensor rate = w.at("model.layers.0.attn.A_log").exp();
  EXPECT_GT(rate.min().item<double>(), 0);
  EXPECT_LE(rate.max().item<double>(), 16.001);
  EXPECT_NEAR(rate.mean().item<double>(), 8, 2.5);
  const at::Tensor step = at::softplus(w.at("model.layers.0.attn.dt_bias"));
  EXPECT_GE(step.min().item<double>(), 0.00099);
  EXPECT_LE(step.max().item<double>(), 0.1001);

  LanguageModel again(config), other(config);
  initialise(again, 3);
  initialise(other, 4);
  const auto values = model.named_values(), same = again.named_values();
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(at::equal(values[i].second, same[i].second)) << values[i].first;
  EXPECT_FALSE(at::equal(values[0].second, other.named_values()[0].second));
}

// The paper's published code: xavier_uniform_ with gain 2^-2.5 in the layer, PyTorch's own start for convolutions,
// and kaiming_uniform_(a=sqrt(5)) / sqrt(2 layers) for the MLP's output.
TEST(LanguageModel, PaperSchemeDrawsTheLayersMatricesAsThePaper) {
  ModelConfig config;
  config.hidden_size = 64;
  config.num_hidden_layers = 3;
  config.num_heads = 16;
  config.head_dim = 8;
  config.expand_v = 1;
  config.num_householder = 2;
  config.vocab_size = 1000;
  LanguageModel model(config);
  initialise(model, 3, InitScheme::kPaper);
  const std::map<std::string, at::Tensor> w = named_weights(model);
  const auto expect_uniform = [&](const char* name, double bound) {
    const at::Tensor& x = w.at(std::string("model.layers.1.") + name);
    EXPECT_LE(largest(x), bound) << name;
    EXPECT_GT(largest(x), 0.98 * bound) << name;
    EXPECT_NEAR(x.std().item<double>(), bound / std::sqrt(3.0), 0.04 * bound) << name;
  };
  const auto xavier = [](double in, double out) {
    return std::exp2(-2.5) * std::sqrt(6 / (in + out));
  };
  expect_uniform("attn.q_proj.weight", xavier(64, 128));
  expect_uniform("attn.k_proj.weight", xavier(64, 128));  // of each factor, not of both together
  expect_uniform("attn.b_proj.weight", xavier(64, 16));
  expect_uniform("attn.o_proj.weight", xavier(128, 64));
  expect_uniform("attn.k_conv1d.weight", 0.5);
  expect_uniform("mlp.down_proj.weight",
                 1 / std::sqrt(static_cast<double>(config.mlp_width())) / std::sqrt(6.0));
  EXPECT_NEAR(w.at("model.layers.1.mlp.up_proj.weight").std().item<double>(), 0.02, 3e-4);
  EXPECT_NEAR(w.at("lm_head.weight").std().item<double>(), 0.02, 3e-4);
}

TEST(LanguageModel, RefusesTokensOutsideTheVocabulary) {
  const ModelConfig config = some_configs()[0];
  const LanguageModel model = random_model(config);
  try {
    model.features(at::full({1, 2}, 19, at::kLong));
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "tokens must be from 0 to 18, got 19");
  }
}

}  // namespace
}  // namespace dp
