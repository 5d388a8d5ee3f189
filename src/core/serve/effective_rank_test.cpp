#include "serve/effective_rank.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/test_models.h"

namespace dp::serve {
namespace {

TEST(EffectiveRank, OfKnownMatrices) {
  EXPECT_EQ(effective_rank(std::vector<float>(12), 3, 4), 0);
  const std::vector<float> one_direction = {1, 2, 3, 2, 4, 6};
  EXPECT_NEAR(effective_rank(one_direction, 2, 3), 1, 1e-6);
  EXPECT_NEAR(effective_rank(one_direction, 3, 2), effective_rank({{1, 3, 4, 2, 2, 6}}, 2, 3),
              1e-6);
  EXPECT_NEAR(effective_rank({{3, 0, 0, 0, 3, 0, 0, 0, 3}}, 3, 3), 3, 1e-9);
  EXPECT_NEAR(effective_rank({{0, -2, 2, 0}}, 2, 2), 2, 1e-9);
  // Singular values 3 and 1: shares 3/4 and 1/4.
  const double want = std::exp(-0.75 * std::log(0.75) - 0.25 * std::log(0.25));
  EXPECT_NEAR(effective_rank({{2, 1, 1, 2}}, 2, 2), want, 1e-9);
  EXPECT_NEAR(effective_rank({{3, 0, 0, 0, 1, 0}}, 2, 3), want, 1e-9);
}

TEST(EffectiveRank, HasANumberForEachHeadOfEachLayer) {
  const auto model = runtime::random_model(runtime::some_configs()[3]);
  const auto ranks = effective_ranks(*model, model->new_state());
  ASSERT_EQ(static_cast<int64_t>(ranks.size()), model->config().num_hidden_layers);
  for (const auto& layer : ranks)
    EXPECT_EQ(layer, std::vector<double>(static_cast<size_t>(model->config().value_heads())));
}

}  // namespace
}  // namespace dp::serve
