#include "tasks/batch_prefetcher.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tasks/word_problem.h"

namespace dp {
namespace {

TEST(BatchPrefetcher, SameBatchesAsWithoutIt) {
  const auto task = std::make_shared<const WordProblem>(WordProblemOptions{.group = "S4"});
  BatchPrefetcher prefetcher(task, Split::kTrain, 7);
  uint64_t index = 0;
  for (const int64_t length : {4, 8, 8, 16, 128}) {  // a curriculum
    for (int i = 0; i < 10; ++i, ++index) {
      const Batch got = prefetcher.batch(index, 4, length);
      const Batch expected = task->batch(Split::kTrain, 7, index, 4, length);
      ASSERT_TRUE(got.tokens.equal(expected.tokens)) << index;
      ASSERT_TRUE(got.targets.equal(expected.targets)) << index;
    }
  }
  const Batch back = prefetcher.batch(3, 4, 4);  // as one does to go on from a checkpoint
  EXPECT_TRUE(back.tokens.equal(task->batch(Split::kTrain, 7, 3, 4, 4).tokens));
}

// Ranks together see every row of a batch once.
TEST(BatchPrefetcher, SharesAreTheRowsOfTheWhole) {
  const auto task = std::make_shared<const WordProblem>(WordProblemOptions{.group = "S4"});
  constexpr int64_t kRows = 7, kParts = 3;
  for (uint64_t index = 0; index < 3; ++index) {
    const Batch whole = task->batch(Split::kTrain, 7, index, kRows, 8);
    std::vector<at::Tensor> parts;
    for (int64_t part = 0; part < kParts; ++part)
      parts.push_back(
          BatchPrefetcher(task, Split::kTrain, 7, 1, {part, kParts}).batch(index, kRows, 8).tokens);
    EXPECT_TRUE(at::cat(parts).equal(whole.tokens));
  }
}

TEST(BatchPrefetcher, PassesErrorsOn) {
  const auto task = std::make_shared<const WordProblem>(WordProblemOptions{});
  BatchPrefetcher prefetcher(task, Split::kTest, 0);
  for (int i = 0; i < 3; ++i)  // the second time from the background
    EXPECT_THROW(prefetcher.batch(static_cast<uint64_t>(i), 2, 0), InputError);
  EXPECT_EQ(prefetcher.batch(0, 2, 5).tokens.sizes(), (std::vector<int64_t>{2, 6}));
}

}  // namespace
}  // namespace dp
