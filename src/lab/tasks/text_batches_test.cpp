#include "tasks/text_batches.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/test_folder.h"
#include "tasks/test_dataset.h"

namespace dp {
namespace {

using TextRow = std::vector<int64_t>;

// Token i of the stream is i.
std::shared_ptr<const TokenDataset> counting(const std::filesystem::path& directory,
                                             uint16_t tokens, const std::set<size_t>& ends = {}) {
  std::vector<uint16_t> all(tokens);
  std::iota(all.begin(), all.end(), uint16_t{0});
  write_dataset(directory, all, ends, 65'536);
  return std::make_shared<TokenDataset>(directory);
}

TextRow text_row(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous().view(-1);
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

TEST(TextBatches, EveryWindowOncePerEpoch) {
  const TestFolder folder;
  int number = 0;
  for (const auto& [tokens, T] : std::vector<std::pair<uint16_t, int64_t>>{
           {100, 9}, {101, 10}, {100, 10}, {3, 1}, {50, 49}, {1000, 1}, {999, 13}}) {
    const auto data = counting(folder / std::to_string(number++), tokens);
    const TextBatches batches(data, {.length = T, .seed = 3});
    const uint64_t windows = batches.num_windows();
    EXPECT_EQ(windows, static_cast<uint64_t>((tokens - 1) / T));
    std::vector<std::vector<int64_t>> orders;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::map<int64_t, int> inputs, asked;
      std::vector<int64_t> order;
      for (uint64_t i = 0; i < windows; ++i) {
        const Batch batch = batches.batch(epoch * windows + i, 1);
        EXPECT_TRUE((batch.targets - batch.tokens).eq(1).all().item<bool>());
        for (const int64_t token : text_row(batch.tokens)) ++inputs[token];
        for (const int64_t token : text_row(batch.targets)) ++asked[token];
        order.push_back(batch.tokens[0][0].item<int64_t>() / T);
      }
      // Every token but those after the last window is an input once, and every one but the first a target.
      const int64_t used = static_cast<int64_t>(windows) * T;
      EXPECT_EQ(static_cast<int64_t>(inputs.size()), used);
      EXPECT_EQ(inputs.rbegin()->first, used - 1);
      EXPECT_EQ(asked.begin()->first, 1);
      EXPECT_EQ(asked.rbegin()->first, used);
      for (const auto& [token, count] : inputs) ASSERT_EQ(count, 1);
      for (const auto& [token, count] : asked) ASSERT_EQ(count, 1);
      orders.push_back(order);
    }
    if (windows > 8) {
      EXPECT_NE(orders[0], orders[1]);
      EXPECT_NE(orders[1], orders[2]);
    }
  }
}

TEST(TextBatches, BatchesAreAFunctionOfTheirArguments) {
  const TestFolder folder;
  const auto data = counting(folder / "d", 1000);
  const TextBatches batches(data, {.length = 8, .seed = 1}), again(data, {.length = 8, .seed = 1}),
      other(data, {.length = 8, .seed = 2}), plain(data, {.length = 8, .shuffled = false});
  const at::Tensor batch = batches.batch(2, 4).tokens;
  EXPECT_TRUE(batch.equal(again.batch(2, 4).tokens));
  EXPECT_FALSE(batch.equal(other.batch(2, 4).tokens));
  EXPECT_FALSE(batch.equal(batches.batch(3, 4).tokens));
  EXPECT_TRUE(batches.batch(1, 8).tokens.equal(at::cat({batch, batches.batch(3, 4).tokens})))
      << "the same windows in batches of any size";
  EXPECT_EQ(text_row(plain.batch(0, 2).tokens), text_row(at::arange(16)));
  EXPECT_EQ(plain.window(124), 0u) << "the next epoch";
}

TEST(TextBatches, RanksShareABatch) {
  const TestFolder folder;
  const TextBatches batches(counting(folder / "d", 1000),
                            {.length = 5, .reset_at_documents = true});
  const at::Tensor all = batches.batch(3, 10).tokens;
  for (const int64_t ranks : {1, 2, 3, 10}) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const at::Tensor rows = at::arange(rank, 10, ranks);
      const Batch part = batches.batch(3, 10, rank, ranks);
      EXPECT_TRUE(part.tokens.equal(all.index_select(0, rows)));
      EXPECT_EQ(text_row(part.cu_seqlens.value()).back(), 5 * rows.size(0));
    }
  }
}

TEST(TextBatches, ResetsAtDocuments) {
  const TestFolder folder;
  const auto data = counting(folder / "d", 31, {3, 4, 10, 25});
  const TextBatches batches(data, {.length = 5, .shuffled = false, .reset_at_documents = true});
  const Batch batch = batches.batch(0, 6);
  constexpr int64_t x = kNothingAsked;
  EXPECT_EQ(text_row(batch.tokens), text_row(at::arange(30)));
  EXPECT_EQ(text_row(batch.targets),
            (TextRow{1,  2,  x,  x,  5,  6,  7,  8,  9,  x, 11, 12, 13, 14, 15,
                     16, 17, 18, 19, 20, 21, 22, 23, 24, x, 26, 27, 28, 29, 30}));
  EXPECT_EQ(text_row(batch.cu_seqlens.value()), (TextRow{0, 3, 4, 5, 10, 15, 20, 25, 30}));
  const TextBatches ignoring(data, {.length = 5, .shuffled = false});
  EXPECT_EQ(text_row(ignoring.batch(0, 6).targets), text_row(at::arange(1, 31)));
  EXPECT_FALSE(ignoring.batch(0, 6).cu_seqlens.has_value());
}

// What runs are reproduced from: these numbers must never change.
TEST(TextBatches, SameOrderForever) {
  const TestFolder folder;
  const TextBatches batches(counting(folder / "d", 101), {.length = 10, .seed = 7});
  TextRow order;
  for (uint64_t i = 0; i < 20; ++i) order.push_back(static_cast<int64_t>(batches.window(i)));
  EXPECT_EQ(order, (TextRow{0, 6, 7, 3, 2, 1, 4, 9, 8, 5, 4, 8, 3, 9, 6, 1, 5, 7, 0, 2}));
}

TEST(TextBatches, RefusesTooLittle) {
  const TestFolder folder;
  const auto data = counting(folder / "d", 10);
  EXPECT_THROW(TextBatches(data, {.length = 10}), InputError);
  EXPECT_THROW(TextBatches(data, {.length = 0}), InputError);
  const TextBatches batches(data, {.length = 9});
  EXPECT_THROW(batches.batch(0, 0), InputError);
  EXPECT_THROW(batches.batch(0, 2, 2, 3), InputError);
  EXPECT_THROW(batches.batch(0, 2, 2, 2), InputError);
}

}  // namespace
}  // namespace dp
