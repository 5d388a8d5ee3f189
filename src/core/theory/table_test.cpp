#include "theory/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace dp::theory {
namespace {

// The leaves whose conditions a row meets.
std::vector<int32_t> outcomes(const std::vector<TableLeaf>& leaves, const TableRow& row) {
  std::vector<int32_t> found;
  for (const TableLeaf& leaf : leaves)
    if (std::ranges::all_of(leaf.conditions, [&](const auto& condition) {
          return std::ranges::find(condition.second, row.values[condition.first]) !=
                 condition.second.end();
        }))
      found.push_back(leaf.outcome);
  return found;
}

TEST(Table, EachRowMeetsItsLeafAlone) {
  std::mt19937 random(3);
  for (int draw = 0; draw < 50; ++draw) {
    std::vector<TableRow> rows;
    for (int32_t a = 0; a < 3; ++a)
      for (int32_t b = 0; b < 4; ++b)
        for (int32_t c = 0; c < 2; ++c)
          if (random() % 4 != 0) rows.push_back({{a, b, c}, static_cast<int32_t>(random() % 3)});
    const auto leaves = table_leaves(rows);
    EXPECT_LE(leaves.size(), rows.size());
    for (const TableRow& row : rows) EXPECT_EQ(outcomes(leaves, row), std::vector{row.outcome});
  }
}

TEST(Table, ColumnsThatDoNotMatterAreNotAsked) {
  std::vector<TableRow> rows;  // the outcome is the last column, of ten
  for (int32_t word = 0; word < 1024; ++word) {
    rows.push_back({{}, word % 2});
    for (int32_t bit = 9; bit >= 0; --bit) rows.back().values.push_back(word >> bit & 1);
  }
  const auto leaves = table_leaves(rows);
  ASSERT_EQ(leaves.size(), 2u);
  for (const TableLeaf& leaf : leaves) {
    ASSERT_EQ(leaf.conditions.size(), 1u);
    EXPECT_EQ(leaf.conditions[0].first, 9u);
  }
}

}  // namespace
}  // namespace dp::theory
