#include "text/pair_merger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>


namespace dp {
namespace {

using Merges = std::map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>>;  // rank, result

// As the algorithm is told: look at all pairs, join the best, again.
std::vector<int32_t> merge_naively(std::vector<int32_t> symbols, const Merges& merges) {
  while (true) {
    size_t best = symbols.size();
    int32_t best_rank = INT32_MAX;
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
      if (const auto found = merges.find({symbols[i], symbols[i + 1]});
          found != merges.end() && found->second.first < best_rank)
        best = i, best_rank = found->second.first;
    if (best == symbols.size()) return symbols;
    symbols[best] = merges.at({symbols[best], symbols[best + 1]}).second;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(PairMerger, DoesWhatTheNaiveLoopDoes) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    Merges merges;
    PairMerger merger;
    int32_t symbols = 3 + static_cast<int32_t>(random() % 4);
    const int32_t letters = symbols;
    for (int32_t i = 0; i < 40; ++i) {
      const std::pair pair(static_cast<int32_t>(random() % static_cast<uint32_t>(symbols)),
                           static_cast<int32_t>(random() % static_cast<uint32_t>(symbols)));
      const int32_t rank = static_cast<int32_t>(random() % 50);  // some are equal
      merges[pair] = {rank, symbols};
      merger.add(pair.first, pair.second, rank, symbols++);
    }
    for (const size_t length : {0, 1, 2, 3, 10, 50, 95, 96, 97, 98, 200, 700}) {
      std::vector<int32_t> text(length);
      for (int32_t& symbol : text)
        symbol = random() % 20 == 0
                     ? -1
                     : static_cast<int32_t>(random() % static_cast<uint32_t>(letters));
      std::vector<int32_t> merged = text;
      merger.merge(merged);
      ASSERT_EQ(merged, merge_naively(text, merges)) << "round " << round << ", length " << length;
    }
  }
}

TEST(PairMerger, TheLastOfTwoEqualPairsCounts) {
  PairMerger merger;
  merger.add(0, 1, 5, 2);
  merger.add(0, 1, 6, 3);
  std::vector<int32_t> symbols = {0, 1};
  merger.merge(symbols);
  EXPECT_EQ(symbols, std::vector<int32_t>{3});
}

// Quadratic time would be hours, which ctest does not grant.
TEST(PairMerger, LongTextsTakeNoQuadraticTime) {
  PairMerger merger;  // a a -> b, b b -> c, ...
  for (int32_t i = 0; i < 10; ++i) merger.add(i, i, i, i + 1);
  std::vector<int32_t> symbols(1 << 20, 0);
  merger.merge(symbols);
  EXPECT_EQ(symbols, std::vector<int32_t>(1 << 10, 10));
}

}  // namespace
}  // namespace dp
