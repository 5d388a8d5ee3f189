#include "analysis/analysis.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analysis/analysis_json.h"
#include "base/error.h"
#include "nn/language_model.h"
#include "nn/test_models.h"
#include "tasks/word_problem.h"

namespace dp::analysis {
namespace {

// Z3 with a vocabulary of 4, one head, two factors, K = 4.
ModelConfig small_config() {
  ModelConfig config;
  config.vocab_size = 4;
  config.hidden_size = 4;
  config.num_hidden_layers = 1;
  config.num_heads = 1;
  config.head_dim = 4;
  config.expand_v = 1;
  config.num_householder = 2;
  config.allow_neg_eigval = true;
  config.use_output_gate = config.use_short_conv = false;
  config.intermediate_size = 4;
  return config;
}

void set(LanguageModel& model, const std::string& name, const at::Tensor& value) {
  for (const auto& [key, parameter] : model.parameters())
    if (key.ends_with(name)) parameter->value.copy_(value);
}

Score no_score(const LanguageModel&) { return {}; }

// Token g is the unit vector g, of norm 2 after the layer's norm (root mean square 1/2): beta of element
// g, factor j is 2 sigmoid(2 b[j][g]), and its key the normalised SiLU of 2 W[:,g].
TEST(Analyze, FindsTheBetasAndKeysThatWeightsWereSetTo) {
  const c10::InferenceMode inference;
  LanguageModel model = random_model(small_config());
  set(model, "embeddings.weight", at::eye(4));
  set(model, "layers.0.attn_norm.weight", at::ones({4}));
  const at::Tensor b = at::tensor({0.0, 10.0, -10.0, 0.0, 0.5, 10.0, 1.0, 0.0}).view({2, 4});
  set(model, "b_proj.weight", b.to(at::kFloat));
  // Element 1: both reflections, with keys e0 and (e0 + e1) / sqrt 2, 45 degrees apart.
  at::Tensor k = at::ones({8, 4}) * 0.3;
  k.select(1, 1).zero_();
  k[0][1] = 1;
  k[4][1] = 1, k[5][1] = 1;
  set(model, "k_proj.weight", k);
  const WordProblem task({.group = "Z3"});
  const Analysis result = analyze(model, task, {}, no_score);
  ASSERT_EQ(result.elements.size(), 3u);
  EXPECT_EQ(result.elements[0].order, 1);
  EXPECT_EQ(result.elements[2].order, 3);
  EXPECT_EQ(result.factors, 2);
  ASSERT_TRUE(result.layers[0].exact);
  const Head& head = result.layers[0].heads[0];
  for (int64_t g = 0; g < 3; ++g)
    for (int64_t j = 0; j < 2; ++j) {
      const double expected = 2 / (1 + std::exp(-2 * b[j][g].item<double>()));
      EXPECT_NEAR(head.beta[static_cast<size_t>(g)][static_cast<size_t>(j)], expected, 1e-5);
      EXPECT_EQ(head.beta_std[static_cast<size_t>(g)][static_cast<size_t>(j)], 0);
    }
  ASSERT_EQ(head.eigenvalues[1].size(), 2u);
  EXPECT_NEAR(std::abs(head.eigenvalues[1][0] - std::complex<double>(0, 1)), 0, 1e-4);
  EXPECT_NEAR(std::abs(head.eigenvalues[1][1] + std::complex<double>(0, 1)), 0, 1e-4);
  EXPECT_EQ(head.gate, (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(head.spread[1], 0);
  // Factor 0: keys c, e0, c with c = (1,1,1,1)/2: they vary along a line.
  EXPECT_NEAR(head.factor_keys[0].centred[0], 1, 1e-5);
  EXPECT_LT(head.factor_keys[0].uncentred[0], 0.95);
  EXPECT_NEAR(head.factor_keys[0].uncentred[1], 1, 1e-5);
}

// The same layer behind a convolution that looks at nothing but the current token: averages over
// sequences are the values of each token.
TEST(Analyze, AveragesOverOccurrencesWhereWhatCameBeforeMatters) {
  const c10::InferenceMode inference;
  ModelConfig config = small_config();
  const LanguageModel plain = random_model(config);
  config.use_short_conv = true;
  config.conv_size = 2;
  LanguageModel convolved = random_model(config);
  LanguageModel same(config);
  for (const auto& [name, parameter] : same.parameters()) {
    for (const auto& [other, value] : plain.named_values())
      if (name == other) parameter->value = value;
    if (!parameter->value.defined()) {
      parameter->value = at::zeros(parameter->shape);
      parameter->value.select(2, 1).fill_(1);
    }
  }
  const WordProblem task({.group = "Z3"});
  const Options options{.length = 20, .sequences = 10, .batch_size = 4};
  const Analysis expected = analyze(plain, task, options, no_score);
  const Analysis got = analyze(same, task, options, no_score);
  ASSERT_FALSE(got.layers[0].exact);
  EXPECT_GT(got.layers[0].fewest_occurrences, 1);
  const Head &a = got.layers[0].heads[0], &b = expected.layers[0].heads[0];
  for (size_t e = 0; e < 3; ++e) {
    for (size_t j = 0; j < 2; ++j) EXPECT_NEAR(a.beta[e][j], b.beta[e][j], 1e-6);
    EXPECT_NEAR(a.spread[e], 0, 1e-4);
    ASSERT_EQ(a.eigenvalues[e].size(), 4u);
    EXPECT_NEAR(std::abs(a.eigenvalues[e][0] - b.eigenvalues[e][0]), 0, 1e-5);
  }
  const Head moving = analyze(convolved, task, options, no_score).layers[0].heads[0];
  EXPECT_GT(moving.spread[0], 1e-2);
  EXPECT_THROW(analyze(same, task, {.length = 1, .sequences = 1}, no_score), InputError);
}

// An element of two tokens has the factors of both, the first token's first.
TEST(Analyze, JoinsTheTokensOfAnElement) {
  const c10::InferenceMode inference;
  ModelConfig config = small_config();
  config.num_householder = 1;
  config.vocab_size = 7;
  const LanguageModel model = random_model(config);
  const Analysis whole = analyze(
      model, WordProblem({.group = "Z3", .max_moved = 0, .tokens_per_element = 2}), {}, no_score);
  EXPECT_EQ(whole.factors, 2);
  config.vocab_size = 7;  // Z6 reads the same tokens one by one: (g,p) is token 3 (p - 1) + g
  const Analysis parts = analyze(model, WordProblem({.group = "Z6"}), {}, no_score);
  const auto find_beta = [&](const std::string& name) {
    for (size_t e = 0; e < parts.elements.size(); ++e)
      if (parts.elements[e].name == name) return parts.layers[0].heads[0].beta[e][0];
    return -1.0;
  };
  const Table& beta = whole.layers[0].heads[0].beta;
  for (size_t e = 0; e < 3; ++e) {
    const int64_t g = std::stoll(whole.elements[e].name);
    EXPECT_EQ(beta[e][0], find_beta(std::to_string(g)));
    EXPECT_EQ(beta[e][1], find_beta(std::to_string(g + 3)));
  }
}

TEST(Analyze, MeasuresEachHeadAloneAndCut) {
  ModelConfig config = small_config();
  config.num_heads = 2;
  const LanguageModel model = random_model(config);
  // The norm of what each head adds, by the columns of o_proj that are left.
  const Analysis result =
      analyze(model, WordProblem({.group = "Z3"}), {}, [](const LanguageModel& m) {
        Score score;
        for (const auto& [name, value] : m.named_values())
          if (name.ends_with("o_proj.weight")) {
            score.sequences = value.narrow(1, 0, 4).norm().item<double>();
            score.answers = value.narrow(1, 4, 4).norm().item<double>();
          }
        return score;
      });
  const std::vector<Head>& heads = result.layers[0].heads;
  EXPECT_GT(result.whole.sequences, 0);
  EXPECT_EQ(heads[0].alone.sequences, result.whole.sequences);
  EXPECT_EQ(heads[0].alone.answers, 0);
  EXPECT_EQ(heads[0].cut.sequences, 0);
  EXPECT_EQ(heads[1].cut.sequences, result.whole.sequences);
  EXPECT_EQ(heads[1].cut.answers, 0);
}

TEST(Analyze, RefusesAModelOfAnotherTask) {
  EXPECT_THROW(analyze(random_model(small_config()), WordProblem({.group = "Z4"}), {}, no_score),
               InputError);
}

TEST(AnalysisJson, HasTheDocumentedShape) {
  const Analysis result =
      analyze(random_model(small_config()), WordProblem({.group = "Z3"}), {}, no_score);
  const nlohmann::ordered_json json = to_json(result);
  EXPECT_EQ(json["elements"].size(), 3u);
  const auto& head = json["layers"][0]["heads"][0];
  EXPECT_EQ(head["factors"].size(), 2u);
  EXPECT_EQ(head["factors"][1]["beta"].size(), 3u);
  EXPECT_EQ(head["factors"][1]["coordinates"][2].size(), 3u);
  EXPECT_EQ(head["keys"]["explained"].size(), 4u);
  EXPECT_EQ(head["eigenvalues"][0].size(), 2u);
  EXPECT_EQ(head["eigenvalues"][0][0].size(), 2u);
}

}  // namespace
}  // namespace dp::analysis
