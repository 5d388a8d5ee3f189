#include "tasks/shuffle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace dp {
namespace {

TEST(Shuffle, IsABijection) {
  for (const uint64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 100, 1023, 1024, 1025, 100'003}) {
    for (const uint64_t key : {0, 1, 77}) {
      const Shuffle shuffle(size, key);
      std::vector<bool> seen(size);
      for (uint64_t i = 0; i < size; ++i) {
        const uint64_t to = shuffle(i);
        ASSERT_LT(to, size);
        ASSERT_FALSE(seen[to]);
        seen[to] = true;
      }
    }
  }
  EXPECT_THROW(Shuffle(0, 1), std::invalid_argument);
  EXPECT_LT(Shuffle(uint64_t{1} << 62, 3)(5), uint64_t{1} << 62);
}

// Over many keys, each thing comes at each place about equally often: also for pairs of places.
TEST(Shuffle, FavoursNothing) {
  constexpr uint64_t kSize = 6, kKeys = 30'000;
  std::map<std::pair<uint64_t, uint64_t>, int> count;
  for (uint64_t key = 0; key < kKeys; ++key) {
    const Shuffle shuffle(kSize, key * 0x9e3779b97f4a7c15);
    ++count[{shuffle(0), shuffle(1)}];
  }
  const double expected = kKeys / 30.0;
  double chi2 = 0;
  for (const auto& [pair, n] : count) chi2 += (n - expected) * (n - expected) / expected;
  EXPECT_EQ(count.size(), 30u);
  EXPECT_LT(chi2, 29 + 6 * std::sqrt(2 * 29.0));
}

// Neighbours do not stay neighbours.
TEST(Shuffle, LooksRandom) {
  constexpr uint64_t kSize = 100'000;
  const Shuffle shuffle(kSize, 5);
  double sum = 0;
  for (uint64_t i = 0; i + 1 < kSize; ++i)
    sum += std::abs(static_cast<double>(shuffle(i)) - static_cast<double>(shuffle(i + 1)));
  EXPECT_NEAR(sum / kSize, kSize / 3.0, kSize * 0.005);
}

// What runs are reproduced from: these numbers must never change.
TEST(Shuffle, SameOrderForever) {
  const Shuffle shuffle(10, 1);
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < 10; ++i) order.push_back(shuffle(i));
  EXPECT_EQ(order, (std::vector<uint64_t>{2, 9, 7, 3, 0, 1, 6, 5, 8, 4}));
}

}  // namespace
}  // namespace dp
