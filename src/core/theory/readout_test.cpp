#include "theory/readout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace dp::theory {
namespace {

TEST(Readout, BaseIsTheSpreadOverTheLeastDifferencePlusOne) {
  EXPECT_EQ(sufficient_base(std::vector{0.0, 1.0}), 2);
  EXPECT_EQ(sufficient_base(std::vector{-1.0, 3.0, 0.0, 3.0}),
            5);  // in any order, any number of times
  EXPECT_EQ(sufficient_base(std::vector{7.0}), 1);
}

TEST(Readout, QueryIsOfLengthOne) {
  const std::vector<double> q = readout_query(3, 4);
  double square = 0;
  for (const double value : q) square += value * value;
  EXPECT_NEAR(square, 1, 1e-15);
  EXPECT_NEAR(q[3] / q[2], 3, 1e-14);
  EXPECT_NEAR(q[1] / q[0], 3, 1e-14);
}

TEST(Readout, TellsAllStatesApart) {
  const std::vector<std::vector<double>> sets = {
      {0, 1}, {-1, 1}, {0, 1, 2}, {-1, 0, 1}, {0, 1, 3}, {-0.5, 0.5, 1, 4}, {0, 0.1, 0.3, 0.7}};
  for (const std::vector<double>& values : sets)
    for (size_t d = 1; d <= 5; ++d)
      for (const double eps : {1.0, 1e-2, 1e-5}) {
        const ReadoutCheck check = check_readout(values, d, sufficient_base(values), eps);
        EXPECT_EQ(check.states, static_cast<int64_t>(std::pow(values.size(), d)));
        EXPECT_EQ(check.distinct, check.states)
            << testing::PrintToString(values) << " d " << d << " eps " << eps;
        EXPECT_FALSE(check.collision);
      }
}

TEST(Readout, TellsStatesOfRandomValuesApart) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 100; ++i) {
    std::vector<double> values;
    for (uint64_t j = 0; j < 2 + random() % 3; ++j)  // multiples of 1/4: not too close
      values.push_back(static_cast<double>(random() % 17) / 4 - 2);
    const ReadoutCheck check = check_readout(values, 3, sufficient_base(values), 1);
    EXPECT_EQ(check.distinct, check.states) << testing::PrintToString(values);
  }
}

// 2 b = b^2 with b = 2: (2, 0) and (0, 1) have the same digits' sum.
TEST(Readout, CanFailWithASmallerBase) {
  const ReadoutCheck three = check_readout(std::vector{0.0, 1.0, 2.0}, 2, 2, 1);
  EXPECT_LT(three.distinct, three.states);
  ASSERT_TRUE(three.collision);
  const std::vector<double> q = readout_query(2, 2);
  EXPECT_NE(three.collision->first, three.collision->second);
  EXPECT_NEAR(read_out(three.collision->first, q, 1), read_out(three.collision->second, q, 1),
              1e-15);
  // b + b^2 = b^3 with the golden ratio.
  const ReadoutCheck two = check_readout(std::vector{0.0, 1.0}, 3, (1 + std::sqrt(5)) / 2, 1);
  EXPECT_EQ(two.states - two.distinct, 1);
  // A smaller base need not fail.
  EXPECT_EQ(check_readout(std::vector{0.0, 1.0, 3.0}, 2, 2.5, 1).distinct, 9);
}

// What the lemma says of real numbers, float32 keeps only with a large eps.
TEST(Readout, NeedsALargeEpsInFloat32) {
  const std::vector<double> values = {0, 1};
  EXPECT_EQ(check_readout(values, 10, 2, 1).distinct_in_float, 1024);
  const ReadoutCheck small = check_readout(values, 10, 2, 1e-6);
  EXPECT_EQ(small.distinct, 1024);
  EXPECT_LT(small.distinct_in_float, 512);
}

TEST(Readout, RejectsWhatItCannotTry) {
  EXPECT_THROW(check_readout(std::vector{0.0, 1.0}, 2, 2, 0), std::invalid_argument);
  EXPECT_THROW(check_readout(std::vector{0.0, 1.0}, 30, 2, 1), std::invalid_argument);
}

}  // namespace
}  // namespace dp::theory
