#include "tasks/parity.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"

namespace dp {
namespace {

using Bits = std::vector<int64_t>;

std::vector<Bits> bit_rows(const at::Tensor& tensor) {
  std::vector<Bits> result;
  for (int64_t i = 0; i < tensor.size(0); ++i) {
    const int64_t* data = tensor.data_ptr<int64_t>() + i * tensor.size(1);
    result.emplace_back(data, data + tensor.size(1));
  }
  return result;
}

// Without PAD.
Bits input_bits(const Bits& row) {
  Bits bits;
  for (const int64_t token : row)
    if (token != 2) bits.push_back(token);
  return bits;
}

TEST(Parity, AsksOnceAtTheEnd) {
  const Parity task({});
  EXPECT_EQ(task.vocab_size(), 3);
  EXPECT_EQ(task.chance(), 0.5);
  EXPECT_TRUE(task.asks_once());
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const Batch batch = task.batch(split, 1, 2, 200, 40);
    ASSERT_EQ(batch.tokens.sizes(), (Bits{200, 40}));
    const auto tokens = bit_rows(batch.tokens), targets = bit_rows(batch.targets);
    std::map<size_t, int> lengths;
    for (size_t i = 0; i < 200; ++i) {
      const Bits bits = input_bits(tokens[i]);
      ++lengths[bits.size()];
      for (size_t t = bits.size(); t < 40; ++t) ASSERT_EQ(tokens[i][t], 2) << "PAD comes last";
      for (size_t t = 0; t < 40; ++t) {
        const auto ones = std::count(bits.begin(), bits.end(), 1);
        ASSERT_EQ(targets[i][t], t + 1 == bits.size() ? ones % 2 : kNothingAsked);
      }
    }
    if (split == Split::kTrain) {
      EXPECT_GE(lengths.begin()->first, 3u);
      EXPECT_GT(lengths.size(), 30u);
    } else {
      EXPECT_EQ(lengths, (std::map<size_t, int>{{40, 200}}));
    }
  }
}

TEST(Parity, EveryTokenIsForTrainingAlone) {
  const Parity once({}), every({.every_token = true});
  const Batch asked = every.batch(Split::kTrain, 3, 0, 64, 20),
              plain = once.batch(Split::kTrain, 3, 0, 64, 20);
  EXPECT_TRUE(asked.tokens.equal(plain.tokens));
  const at::Tensor bit = asked.tokens != 2;
  EXPECT_TRUE(
      asked.targets.equal(at::where(bit, asked.tokens.cumsum(1) % 2, at::tensor(kNothingAsked))));
  const Batch test = every.batch(Split::kTest, 3, 0, 64, 20);
  EXPECT_TRUE(test.targets.equal(once.batch(Split::kTest, 3, 0, 64, 20).targets));
}

// What runs are reproduced from: these numbers must never change.
TEST(Parity, SameBatchForever) {
  const Batch batch = Parity({}).batch(Split::kTrain, 3, 5, 2, 8);
  EXPECT_EQ(bit_rows(batch.tokens),
            (std::vector<Bits>{{0, 1, 1, 0, 1, 1, 1, 1}, {1, 1, 1, 2, 2, 2, 2, 2}}));
}

TEST(Parity, BatchesAreAFunctionOfTheirArguments) {
  const Parity task({}), again({});
  const auto tokens = [&](Split split, uint64_t seed, uint64_t index) {
    return task.batch(split, seed, index, 4, 30).tokens;
  };
  const at::Tensor batch = tokens(Split::kTrain, 1, 2);
  EXPECT_TRUE(batch.equal(again.batch(Split::kTrain, 1, 2, 4, 30).tokens));
  EXPECT_FALSE(batch.equal(tokens(Split::kTest, 1, 2)));
  EXPECT_FALSE(batch.equal(tokens(Split::kTrain, 2, 2)));
  EXPECT_FALSE(batch.equal(tokens(Split::kTrain, 1, 3)));
  EXPECT_TRUE(task.batch(Split::kTrain, 1, 1, 8, 30)
                  .tokens.equal(at::cat({batch, tokens(Split::kTrain, 1, 3)})));
}

TEST(Parity, LengthsBitsAndAnswersAreUniform) {
  const Batch batch = Parity({}).batch(Split::kTrain, 0, 0, 38'000, 40);
  const at::Tensor lengths = (batch.tokens != 2).sum(1);
  const at::Tensor count = at::bincount(lengths, {}, 41).to(at::kDouble);
  EXPECT_EQ(count.slice(0, 0, 3).sum().item<double>(), 0);
  const double chi2 = (count.slice(0, 3) - 1000).square().sum().item<double>() / 1000;
  EXPECT_LT(std::abs(chi2 - 37), 5 * std::sqrt(2 * 37)) << chi2;
  const at::Tensor answers = batch.targets.masked_select(batch.targets != kNothingAsked);
  ASSERT_EQ(answers.numel(), 38'000);
  EXPECT_NEAR(answers.to(at::kDouble).mean().item<double>(), 0.5, 5 * 0.5 / std::sqrt(38'000));
  const at::Tensor bits = batch.tokens.masked_select(batch.tokens != 2);
  EXPECT_NEAR(bits.to(at::kDouble).mean().item<double>(), 0.5, 5 * 0.5 / std::sqrt(bits.numel()));
}

TEST(Parity, SplitsShareNoSequence) {
  const Parity task({});
  ASSERT_TRUE(task.splits_are_disjoint(12));
  EXPECT_FALSE(task.splits_are_disjoint(11));
  std::map<Bits, std::set<Split>> found;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest})
    for (const int64_t length : {12, 13})
      for (const Bits& row : bit_rows(task.batch(split, 0, 0, 60'000, length).tokens))
        found[input_bits(row)].insert(split);
  size_t of_twelve = 0, shared = 0;
  for (const auto& [bits, splits] : found) {
    of_twelve += bits.size() == 12;
    shared += splits.size() > 1;
    ASSERT_TRUE(bits.size() < 12 || splits.size() == 1);
  }
  EXPECT_GT(of_twelve, 4000u) << "of 4096";
  EXPECT_EQ(shared, 0u) << "validation and test have no short sequences";
}

TEST(Parity, RefusesBadOptions) {
  EXPECT_THROW(Parity({.min_length = 0}), InputError);
  EXPECT_THROW(Parity({}).batch(Split::kTrain, 0, 0, 1, 0), InputError);
  EXPECT_THROW(Parity({}).batch(Split::kTrain, 0, 0, 1, {5, 1}), InputError);
  EXPECT_EQ(input_bits(bit_rows(Parity({}).batch(Split::kTrain, 0, 0, 1, 2).tokens)[0]).size(), 2u)
      << "shorter than the shortest to train with";
  EXPECT_EQ(Parity({}).token_name(1), "1");
  EXPECT_EQ(Parity({}).token_name(2), "PAD");
}

}  // namespace
}  // namespace dp
