#include "algebra/character_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace dp {
namespace {

std::vector<int32_t> everything(const FiniteGroup& group) {
  std::vector<int32_t> all(static_cast<size_t>(group.order()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int64_t> degrees(const char* name) {
  std::vector<int64_t> result;
  const auto all = irreducible_ranks(FiniteGroup::parse(name));
  for (const IrreducibleRanks& one : *all) result.push_back(one.degree);
  std::ranges::sort(result);
  return result;
}

TEST(IrreducibleRanks, HaveTheDegreesOfTheRealRepresentations) {
  EXPECT_EQ(degrees("S3"), (std::vector<int64_t>{1, 1, 2}));
  EXPECT_EQ(degrees("Z5"), (std::vector<int64_t>{1, 2, 2})) << "pairs of complex ones";
  EXPECT_EQ(degrees("S4"), (std::vector<int64_t>{1, 1, 2, 3, 3}));
  EXPECT_EQ(degrees("A4"), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(degrees("S5"), (std::vector<int64_t>{1, 1, 4, 4, 5, 5, 6}));
  EXPECT_EQ(degrees("A5"), (std::vector<int64_t>{1, 3, 3, 4, 5}));
  EXPECT_EQ(degrees("A6"), (std::vector<int64_t>{1, 5, 5, 8, 8, 9, 10}));
}

// A transposition of S_n is one reflection among the permutation matrices, an n-cycle n - 1.
TEST(IrreducibleRanks, OfPermutationMatrices) {
  const FiniteGroup s5 = FiniteGroup::parse("S5");
  const int32_t swap = *s5.find(Permutation::parse("(1 2)", 5)),
                cycle = *s5.find(Permutation::parse("(1 2 3 4 5)", 5));
  const auto all = irreducible_ranks(s5).value();
  EXPECT_EQ(std::ranges::count_if(all,
                                  [&](const IrreducibleRanks& one) {
                                    return one.degree == 4 &&
                                           one.rank[static_cast<size_t>(swap)] == 1 &&
                                           one.rank[static_cast<size_t>(cycle)] == 4;
                                  }),
            1);
}

TEST(LeastReflections, OverAllElements) {
  const struct {
    const char* name;
    int64_t least;
  } cases[] = {{"Z2", 1},    {"Z2xZ2", 1}, {"Z7", 2}, {"S3", 2},   {"D9", 2},
               {"A4", 2},    {"S4", 2},    {"A5", 2}, {"S5", 4},   {"A6", 4},
               {"S3xZ2", 2}, {"A5xZ2", 2}, {"S6", 4}, {"Z3xZ3", 2}};
  for (const auto& [name, least] : cases) {
    const FiniteGroup group = FiniteGroup::parse(name);
    EXPECT_EQ(least_reflections(group, everything(group)), least) << name;
  }
}

TEST(LeastReflections, OverSomeElements) {
  const FiniteGroup s5 = FiniteGroup::parse("S5");
  const auto element = [&](const char* cycles) { return *s5.find(Permutation::parse(cycles, 5)); };
  EXPECT_EQ(least_reflections(s5, std::vector{element("(1 2)"), element("(2 3)"), element("(3 4)"),
                                              element("(4 5)")}),
            1);
  EXPECT_EQ(least_reflections(s5, std::vector{element("(1 2)")}), 1)
      << "of the group that it generates";
  EXPECT_EQ(least_reflections(s5, std::vector{element("(1 2)"), element("(1 2 3 4 5)")}), 4);
}

}  // namespace
}  // namespace dp
