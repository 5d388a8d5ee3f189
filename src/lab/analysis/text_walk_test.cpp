#include "analysis/text_walk.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/effective_rank.h"
#include "base/error.h"
#include "nn/rivals/test_rivals.h"
#include "nn/test_models.h"

namespace dp::analysis {
namespace {

TEST(EffectiveRank, CountsDirections) {
  const auto rank = [](const at::Tensor& x) { return effective_rank(x).item<double>(); };
  EXPECT_NEAR(rank(at::eye(7)), 7, 1e-6);
  EXPECT_NEAR(rank(at::outer(at::arange(1., 5.), at::arange(1., 4.))), 1, 1e-6);
  EXPECT_EQ(rank(at::zeros({3, 4})), 0);
  EXPECT_NEAR(rank(1e-20 * at::eye(3)), 3, 1e-6);  // whatever the scale
  // Shares 3/4 and 1/4.
  const double entropy = -(0.75 * std::log(0.75) + 0.25 * std::log(0.25));
  EXPECT_NEAR(rank(at::diag(at::tensor({3.0, 1.0}))), std::exp(entropy), 1e-9);
  EXPECT_EQ(effective_rank(at::randn({2, 5, 3, 4})).sizes(), at::IntArrayRef({2, 5}));
}

TEST(TextWalk, LossIsThatOfTheWholeSequenceWhateverTheBlocks) {
  for (const ModelConfig& config : some_configs_and_rivals()) {
    SCOPED_TRACE(describe(config));
    const LanguageModel model = random_model(config);
    const at::Tensor tokens = random_ids(config, 3, 41);
    const at::NoGradGuard no_grad;
    const at::Tensor logits = model.logits(model.features(tokens.slice(1, 0, 40)));
    const at::Tensor want =
        at::cross_entropy_loss(logits.flatten(0, 1), tokens.slice(1, 1).flatten(), {},
                               at::Reduction::None)
            .view({3, 40})
            .mean(0);
    for (const int64_t block : {1, 7, 40, 512}) {
      const TextWalk walk = walk_text(model, tokens, {.block = block});
      ASSERT_EQ(walk.loss.size(), 40u);
      for (int64_t i = 0; i < 40; ++i)
        EXPECT_NEAR(walk.loss[static_cast<size_t>(i)], want[i].item<double>(), 2e-4) << i;
    }
  }
}

TEST(TextWalk, RanksAreOfTheStatesWhereTheyAreDue) {
  const ModelConfig config = some_configs()[5];
  const LanguageModel model = random_model(config);
  const at::Tensor tokens = random_ids(config, 2, 31);
  const TextWalk walk = walk_text(model, tokens, {.block = 8, .rank_every = 10});
  ASSERT_EQ(walk.ranks.size(), 3u);
  for (const RankSample& sample : walk.ranks) {
    const at::NoGradGuard no_grad;
    ModelState state;
    ForwardOptions options;
    options.state = &state;
    model.features(tokens.slice(1, 0, sample.position), options);
    const std::vector<at::Tensor> want = effective_ranks(state);
    ASSERT_EQ(sample.ranks.size(), want.size());
    for (size_t layer = 0; layer < want.size(); ++layer)
      for (size_t head = 0; head < sample.ranks[layer].size(); ++head)
        EXPECT_NEAR(sample.ranks[layer][head],
                    want[layer].mean(0)[static_cast<int64_t>(head)].item<double>(), 1e-3);
  }
  EXPECT_EQ(walk.ranks[1].position, 20);
}

TEST(TextWalk, StopsWhenToldAndRefusesStatesThatAreNoMatrices) {
  const LanguageModel model = random_model(some_configs()[5]);
  const at::Tensor tokens = random_ids(model.config(), 1, 31);
  EXPECT_EQ(
      walk_text(model, tokens, {.block = 8}, [](int64_t done) { return done < 16; }).loss.size(),
      16u);
  for (const ModelConfig& config : rival_configs()) {
    if (config.architecture != Architecture::kMamba && config.architecture != Architecture::kTransformer) continue;
    EXPECT_THROW(walk_text(random_model(config), random_ids(config, 1, 9), {.rank_every = 4}),
                 InputError);
  }
}

TEST(TextWalk, MovingAverage) {
  EXPECT_EQ(moving_average({1, 2, 3, 4, 5}, 1), (std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_EQ(moving_average({1, 2, 3, 4, 5}, 3), (std::vector<double>{1.5, 2, 3, 4, 4.5}));
  EXPECT_EQ(moving_average({6, 0}, 501), (std::vector<double>{3, 3}));
  EXPECT_TRUE(moving_average({}, 501).empty());
}

}  // namespace
}  // namespace dp::analysis
