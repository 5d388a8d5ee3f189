#include "train/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace dp {
namespace {

TEST(Statistics, MeansOverSeeds) {
  const SeedStatistics one = seed_statistics(std::vector{0.5}, 0, 1);
  EXPECT_EQ(one.mean, 0.5);
  EXPECT_FALSE(one.deviation || one.interval) << "one seed says nothing about others";
  // 0.8 +- 4.3027 * 0.1 / sqrt 3
  const SeedStatistics three = seed_statistics(std::vector{0.7, 0.8, 0.9}, -9, 9);
  EXPECT_EQ(three.count, 3);
  EXPECT_NEAR(three.mean, 0.8, 1e-12);
  EXPECT_NEAR(*three.deviation, 0.1, 1e-12);
  EXPECT_NEAR(three.interval->low, 0.55159, 1e-4);
  EXPECT_NEAR(three.interval->high, 1.04841, 1e-4);
  EXPECT_EQ(seed_statistics(std::vector{0.7, 0.8, 0.9}, 0, 1).interval->high, 1) << "a share";
  // 21 values 0 .. 20: deviation 6.20484, t of 20 degrees of freedom 2.08596.
  std::vector<double> many(21);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i);
  EXPECT_NEAR(seed_statistics(many, -99, 99).interval->high, 10 + 2.08596 * 6.20484 / 4.58258, 2e-3);
}

TEST(Statistics, BootstrapInterval) {
  EXPECT_EQ(bootstrap_interval(std::vector{0.5}).low, 0.5);
  // 0 .. 99: the mean's standard error is 2.887, so that the interval is about 49.5 -+ 5.66.
  std::vector<double> many(100);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i);
  EXPECT_NEAR(bootstrap_interval(many).low, 43.84, 0.4);
  EXPECT_NEAR(bootstrap_interval(many).high, 55.16, 0.4);
  EXPECT_EQ(bootstrap_interval(many).low, bootstrap_interval(many).low) << "the same seed";
}

TEST(Statistics, WilsonsInterval) {
  EXPECT_NEAR(share_interval(0.8, 10).low, 0.49016, 1e-4);
  EXPECT_NEAR(share_interval(0.8, 10).high, 0.94332, 1e-4);
  EXPECT_NEAR(share_interval(1, 512).low, 0.99255, 1e-4);
  EXPECT_EQ(share_interval(1, 512).high, 1);
  EXPECT_EQ(share_interval(0, 512).low, 0);
}

}  // namespace
}  // namespace dp
