#include "runtime/prefix_cache.h"

#include <gtest/gtest.h>

namespace dp::runtime {
namespace {

const std::vector<float> kFeatures(4, 1.0f);

/// A state that is recognised by its one number.
State make_state(float number) { return {{std::vector<float>(16, number)}, 1}; }

float number_in(const PrefixCache::Found& found) { return found.snapshot->state.layers[0][0]; }

TEST(PrefixCache, FindsTheLongestBeginning) {
  PrefixCache cache(1 << 20);
  const std::vector<int64_t> tokens = {3, 1, 4, 1, 5, 9};
  EXPECT_EQ(cache.find(tokens).length, 0u);
  cache.keep(std::span(tokens).first(2), make_state(2), kFeatures);
  cache.keep(std::span(tokens).first(4), make_state(4), kFeatures);
  EXPECT_EQ(cache.find(tokens).length, 4u);
  EXPECT_EQ(number_in(cache.find(tokens)), 4);
  EXPECT_EQ(cache.find(tokens).snapshot->features, kFeatures);
  EXPECT_EQ(cache.find(std::span(tokens).first(3)).length, 2u);
  EXPECT_EQ(number_in(cache.find(std::span(tokens).first(3))), 2);
  EXPECT_EQ(cache.find(std::span(tokens).first(1)).length, 0u);
  EXPECT_EQ(cache.find(std::vector<int64_t>{3, 2, 4}).length, 0u);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(PrefixCache, ForgetsWhatWasNotUsedForTheLongestTime) {
  PrefixCache measure(1 << 20);
  measure.keep(std::vector<int64_t>{1}, make_state(1), kFeatures);
  PrefixCache cache(3 * measure.bytes());
  for (const int64_t token : {1, 2, 3})
    cache.keep(std::vector<int64_t>{token}, make_state(static_cast<float>(token)), kFeatures);
  const PrefixCache::Found used = cache.find(std::vector<int64_t>{1});  // 2 is the oldest now
  EXPECT_EQ(used.length, 1u);
  cache.keep(std::vector<int64_t>{4}, make_state(4), kFeatures);
  EXPECT_EQ(cache.find(std::vector<int64_t>{2}).length, 0u);
  for (const int64_t token : {1, 3, 4})
    EXPECT_EQ(cache.find(std::vector<int64_t>{token}).length, 1u) << token;
  EXPECT_LE(cache.bytes(), 3 * measure.bytes());
  cache.keep(std::vector<int64_t>{4}, make_state(5), kFeatures);  // there already
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(number_in(used), 1);  // what was found stays, whatever is forgotten
}

TEST(PrefixCache, OfNoBytesKeepsNothing) {
  PrefixCache cache(0);
  cache.keep(std::vector<int64_t>{1}, make_state(1), kFeatures);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
}

}  // namespace
}  // namespace dp::runtime
