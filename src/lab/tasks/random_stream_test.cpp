#include "tasks/random_stream.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

namespace dp {
namespace {

// What runs are reproduced from: these numbers must never change.
TEST(RandomStream, SameBitsForever) {
  EXPECT_EQ(RandomStream::mix(0x9e3779b97f4a7c15), 0xe220a8397b1dcdaf) << "SplitMix64 of seed 0";
  RandomStream random({1, 2, 3});
  const std::vector<uint64_t> got = {random.next(), random.next(), random.below(6),
                                     random.below(1000)};
  EXPECT_EQ(got, (std::vector<uint64_t>{5547578181652942701u, 7850599414810282111u, 3, 504}));
}

TEST(RandomStream, KeysMakeDifferentStreams) {
  std::set<uint64_t> first;
  for (uint64_t a = 0; a < 50; ++a)
    for (uint64_t b = 0; b < 50; ++b)
      for (uint64_t c = 0; c < 4; ++c) first.insert(RandomStream({a, b, c}).next());
  EXPECT_EQ(first.size(), 50 * 50 * 4);
}

// Chi-squared with n - 1 degrees of freedom stays within 5 standard deviations of its mean.
TEST(RandomStream, BelowIsUniform) {
  for (const uint32_t n : {2u, 3u, 6u, 60u, 120u}) {
    RandomStream random({n});
    std::vector<double> count(n);
    const double draws = 200'000;
    for (int i = 0; i < draws; ++i) ++count.at(random.below(n));
    double chi2 = 0;
    for (const double c : count) chi2 += (c - draws / n) * (c - draws / n) / (draws / n);
    EXPECT_LT(std::abs(chi2 - (n - 1)), 5 * std::sqrt(2.0 * (n - 1))) << n;
  }
  RandomStream random({0});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(random.below(1), 0);
  // With n = 3 * 2^30 a quarter of the draws is redone; otherwise multiples of 3 come up twice as often.
  std::array<double, 3> thirds{};
  for (int i = 0; i < 30'000; ++i) ++thirds.at(random.below(3u << 30) % 3);
  for (const double third : thirds) EXPECT_NEAR(third, 10'000, 5 * std::sqrt(30'000 * 2.0 / 9));
}

TEST(SplitOf, DividesAsPromised) {
  std::array<int, 3> count{};
  std::vector<int32_t> sequence(6);
  for (int i = 0; i < 46'656; ++i) {  // all words of 6 letters in S3
    for (int place = 0, rest = i; place < 6; ++place, rest /= 6)
      sequence[static_cast<size_t>(place)] = rest % 6;
    ++count.at(static_cast<size_t>(sequence_split(sequence)));
  }
  EXPECT_NEAR(count[0], 46'656 * 0.75, 5 * std::sqrt(46'656 * 0.1875));
  EXPECT_NEAR(count[1], 46'656 * 0.125, 5 * std::sqrt(46'656 * 0.109));
  EXPECT_NEAR(count[2], 46'656 * 0.125, 5 * std::sqrt(46'656 * 0.109));
}

TEST(SplitOf, SmallSpacesAreNotDivided) {
  EXPECT_FALSE(space_is_divided(6, 4));
  EXPECT_TRUE(space_is_divided(6, 5));
  EXPECT_FALSE(space_is_divided(2, 11));
  EXPECT_TRUE(space_is_divided(2, 12));
  EXPECT_FALSE(space_is_divided(1, 1'000'000'000));
  EXPECT_TRUE(space_is_divided(120, 1'000'000'000));
}

}  // namespace
}  // namespace dp
