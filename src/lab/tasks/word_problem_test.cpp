#include "tasks/word_problem.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/test_input_error.h"

namespace dp {
namespace {

using Row = std::vector<int64_t>;

std::vector<Row> rows(const at::Tensor& tensor) {
  std::vector<Row> result;
  for (int64_t i = 0; i < tensor.size(0); ++i) {
    const int64_t* data = tensor.data_ptr<int64_t>() + i * tensor.size(1);
    result.emplace_back(data, data + tensor.size(1));
  }
  return result;
}

std::string option_error(const WordProblemOptions& options) {
  return input_error([&] { const WordProblem task(options); });
}

TEST(WordProblem, TargetsAreProductsFromTheLeft) {
  for (const char* name : {"S3", "A5", "S5", "D7", "Z12", "S3xZ2"}) {
    const WordProblem task({.group = name});
    const FiniteGroup& group = task.group();
    ASSERT_EQ(task.vocab_size(), group.order() + 1);
    const Batch batch = task.batch(Split::kTrain, 1, 0, 8, 50);
    ASSERT_EQ(batch.tokens.sizes(), (Row{8, 51}));
    ASSERT_EQ(batch.targets.sizes(), (Row{8, 51}));
    const auto tokens = rows(batch.tokens), targets = rows(batch.targets);
    for (size_t i = 0; i < 8; ++i) {
      ASSERT_EQ(tokens[i][0], task.bos());
      ASSERT_EQ(targets[i][0], kNothingAsked);
      // Follow each point through the permutations, one after the other.
      std::vector<int64_t> where(static_cast<size_t>(group.degree()));
      for (size_t p = 0; p < where.size(); ++p) where[p] = static_cast<int64_t>(p);
      for (size_t t = 1; t <= 50; ++t) {
        ASSERT_TRUE(tokens[i][t] >= 0 && tokens[i][t] < group.order());
        const Permutation& x = group.permutation(static_cast<int32_t>(tokens[i][t]));
        const Permutation& y = group.permutation(static_cast<int32_t>(targets[i][t]));
        for (size_t p = 0; p < where.size(); ++p) {
          where[p] = x(where[p]);
          ASSERT_EQ(y(static_cast<int64_t>(p)), where[p]) << name << ", token " << t;
        }
      }
    }
  }
}

// What runs are reproduced from: these numbers must never change.
TEST(WordProblem, SameBatchForever) {
  const Batch batch = WordProblem({}).batch(Split::kTrain, 3, 5, 2, 8);
  EXPECT_EQ(rows(batch.tokens),
            (std::vector<Row>{{6, 5, 2, 4, 4, 0, 4, 3, 4}, {6, 0, 5, 3, 5, 1, 1, 2, 3}}));
  EXPECT_EQ(rows(batch.targets),
            (std::vector<Row>{{-100, 5, 4, 3, 0, 0, 4, 0, 4}, {-100, 0, 5, 1, 4, 2, 4, 5, 1}}));
}

TEST(WordProblem, BatchesAreAFunctionOfTheirArguments) {
  const WordProblem task({.group = "S4"}), again({.group = "S4"});
  const auto tokens = [&](Split split, uint64_t seed, uint64_t index, int64_t length) {
    return task.batch(split, seed, index, 4, length).tokens;
  };
  const at::Tensor batch = tokens(Split::kTrain, 1, 2, 20);
  EXPECT_TRUE(batch.equal(again.batch(Split::kTrain, 1, 2, 4, 20).tokens));
  EXPECT_FALSE(batch.equal(tokens(Split::kTest, 1, 2, 20)));
  EXPECT_FALSE(batch.equal(tokens(Split::kTrain, 2, 2, 20)));
  EXPECT_FALSE(batch.equal(tokens(Split::kTrain, 1, 3, 20)));
  EXPECT_FALSE(batch.equal(tokens(Split::kTrain, 1, 2, 21).slice(1, 0, 21)));
  // The same sequences in batches of another size.
  const at::Tensor larger = task.batch(Split::kTrain, 1, 1, 8, 20).tokens;
  EXPECT_TRUE(
      larger.equal(at::cat({tokens(Split::kTrain, 1, 2, 20), tokens(Split::kTrain, 1, 3, 20)})));
}

TEST(WordProblem, SplitsShareNoSequence) {
  // A small space, of 6^5 = 7776 sequences: drawn often enough, each of them comes up.
  const WordProblem task({});
  ASSERT_TRUE(task.splits_are_disjoint(5));
  std::map<Row, std::set<Split>> found;
  std::map<Split, size_t> size;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    for (uint64_t seed = 0; seed < 2; ++seed)
      for (const Row& row : rows(task.batch(split, seed, 0, 50'000, 5).tokens))
        if (found[row].insert(split).second) ++size[split];
  }
  EXPECT_EQ(found.size(), 7776);
  for (const auto& [row, splits] : found) ASSERT_EQ(splits.size(), 1);
  EXPECT_NEAR(static_cast<double>(size[Split::kTest]), 972, 5 * std::sqrt(972 * 0.875));
  EXPECT_NEAR(static_cast<double>(size[Split::kTrain]), 5832, 5 * std::sqrt(5832 * 0.25));
}

TEST(WordProblem, SmallSpacesAreShared) {
  const WordProblem task({});
  EXPECT_FALSE(task.splits_are_disjoint(2));
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const auto all = rows(task.batch(split, 0, 0, 2000, 2).tokens);
    EXPECT_EQ(std::set<Row>(all.begin(), all.end()).size(), 36);
  }
}

// Chi-squared with 59 degrees of freedom, within 5 standard deviations of its mean.
TEST(WordProblem, InputsAndAnswersAreUniform) {
  const WordProblem task({.group = "A5"});
  for (const Split split : {Split::kTrain, Split::kTest}) {
    const Batch batch = task.batch(split, 0, 0, 2000, 30);
    for (const at::Tensor& tensor : {batch.tokens, batch.targets}) {
      const at::Tensor count = at::bincount(tensor.slice(1, 1).flatten(), {}, 60).to(at::kDouble);
      ASSERT_EQ(count.numel(), 60);
      const double chi2 = (count - 1000).square().sum().item<double>() / 1000;
      EXPECT_LT(std::abs(chi2 - 59), 5 * std::sqrt(2 * 59)) << chi2;
    }
  }
}

TEST(WordProblem, RestrictedAlphabets) {
  const WordProblem task({.group = "S5", .max_moved = 2});
  EXPECT_EQ(task.alphabet().size(), 1 + 10);
  EXPECT_EQ(task.answers().size(), 120);
  EXPECT_EQ(task.vocab_size(), 121) << "tokens keep their numbers";
  const Batch batch = task.batch(Split::kTrain, 0, 0, 64, 40);
  std::set<int64_t> inputs, answers;
  for (const Row& row : rows(batch.tokens)) inputs.insert(row.begin() + 1, row.end());
  for (const Row& row : rows(batch.targets)) answers.insert(row.begin() + 1, row.end());
  EXPECT_EQ(inputs, std::set<int64_t>(task.alphabet().begin(), task.alphabet().end()));
  EXPECT_EQ(answers.size(), 120);

  EXPECT_EQ(WordProblem({.group = "S5", .max_moved = 3}).alphabet().size(), 1 + 10 + 20);
  EXPECT_EQ(WordProblem({.group = "S5", .max_moved = 5}).alphabet().size(), 120);
  const WordProblem part({.group = "S3xZ5", .max_moved = 3});
  EXPECT_EQ(part.answers().size(), 6) << "those of S3; five points move together";
}

TEST(WordProblem, LettersComeSimplestFirst) {
  const WordProblem task({.group = "S5"});
  const FiniteGroup& group = task.group();
  EXPECT_EQ(group.subgroup(task.letters().first(4)).size(), 120) << "four transpositions will do";
  EXPECT_LT(group.subgroup(task.letters().first(3)).size(), 120);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(group.permutation(task.letters()[i]).moved_points(), 2) << i;
  EXPECT_EQ(task.letters()[4], FiniteGroup::identity());
  for (size_t i = 5; i < 120; ++i)
    EXPECT_LE(group.permutation(task.letters()[i - 1]).moved_points(),
              group.permutation(task.letters()[i]).moved_points());

  const Batch batch = task.batch(Split::kTrain, 0, 0, 64, {40, 4});
  std::set<int64_t> inputs;
  for (const Row& row : rows(batch.tokens)) inputs.insert(row.begin() + 1, row.end());
  EXPECT_EQ(inputs, std::set<int64_t>(task.letters().begin(), task.letters().begin() + 4));
  const WordProblem backwards({.group = "S5", .most_moved_first = true});
  EXPECT_TRUE(task.batch(Split::kTest, 0, 0, 8, 40)
                  .tokens.equal(backwards.batch(Split::kTest, 0, 0, 8, 40).tokens))
      << "the order of letters is for curricula alone";
  EXPECT_THROW(task.batch(Split::kTrain, 0, 0, 1, {40, 121}), InputError);

  const WordProblem other({.group = "A5", .most_moved_first = true});
  EXPECT_EQ(other.group().subgroup(other.letters().first(2)).size(), 60);
  for (size_t i = 0; i < 24; ++i)
    EXPECT_EQ(other.group().permutation(other.letters()[i]).moved_points(), 5) << i;
  EXPECT_EQ(other.letters().back(), FiniteGroup::identity());
}

TEST(WordProblem, ElementsSpreadOverTokens) {
  const WordProblem plain({.group = "S4"}), task({.group = "S4", .tokens_per_element = 3});
  EXPECT_EQ(task.vocab_size(), 3 * 24 + 1);
  EXPECT_EQ(task.bos(), 72);
  const Batch whole = plain.batch(Split::kTest, 4, 1, 3, 10),
              spread = task.batch(Split::kTest, 4, 1, 3, 10);
  ASSERT_EQ(spread.tokens.sizes(), (Row{3, 31}));
  EXPECT_TRUE(spread.tokens.select(1, 0).eq(72).all().item<bool>());
  EXPECT_TRUE(spread.targets.select(1, 0).eq(kNothingAsked).all().item<bool>());
  const at::Tensor x = whole.tokens.slice(1, 1), y = whole.targets.slice(1, 1);
  for (int64_t part = 0; part < 3; ++part) {
    EXPECT_TRUE(spread.tokens.slice(1, 1 + part, 31, 3).equal(x + part * 24)) << part;
    EXPECT_TRUE(spread.targets.slice(1, 1 + part, 31, 3)
                    .equal(part == 2 ? y : at::full_like(y, kNothingAsked)));
  }
}

TEST(WordProblem, NamesOfTokens) {
  EXPECT_EQ(WordProblem({}).token_name(3), "(1 2 3)");
  EXPECT_EQ(WordProblem({}).token_name(6), "BOS");
  const WordProblem spread({.tokens_per_element = 2});
  EXPECT_EQ(spread.token_name(spread.token(3, 1)), "(1 2 3)/2");
  EXPECT_EQ(spread.token_name(12), "BOS");
}

TEST(WordProblem, RefusesBadOptions) {
  EXPECT_EQ(option_error({.group = "S9"}).substr(0, 11), "group 'S9':");
  EXPECT_EQ(option_error({.group = "Z1"}), "group 'Z1': expected at least two elements, found one");
  EXPECT_EQ(option_error({.group = "A5", .max_moved = 2}),
            "max_moved: expected a number of points that some element of A5 besides the identity "
            "moves at most, found 2");
  EXPECT_EQ(option_error({.max_moved = -1}),
            "max_moved: expected 0 for all elements, or how many points they may move, found -1");
  EXPECT_EQ(option_error({.tokens_per_element = 0}),
            "tokens_per_element: expected 1 to 64, found 0");
  EXPECT_THROW(WordProblem({}).batch(Split::kTrain, 0, 0, 0, 5), InputError);
  EXPECT_THROW(WordProblem({}).batch(Split::kTrain, 0, 0, 1, 0), InputError);
}

}  // namespace
}  // namespace dp
