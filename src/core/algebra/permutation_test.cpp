#include "algebra/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/test_input_error.h"

namespace dp {
namespace {

/// All permutations of n points, ascending.
std::vector<Permutation> all(int64_t n) {
  std::vector<uint16_t> images(static_cast<size_t>(n));
  std::iota(images.begin(), images.end(), uint16_t{0});
  std::vector<Permutation> result;
  do result.emplace_back(images);
  while (std::next_permutation(images.begin(), images.end()));
  return result;
}

std::string permutation_error(std::string_view text, int64_t degree = 0) {
  return input_error([&] { Permutation::parse(text, degree); });
}

TEST(Permutation, ProductsActFromTheLeft) {
  const auto a = Permutation::parse("(1 2)", 3), b = Permutation::parse("(2 3)", 3);
  EXPECT_EQ((a * b).to_string(), "(1 2 3)") << "b maps 3 to 2, then a maps 2 to 1";
  EXPECT_EQ((b * a).to_string(), "(1 3 2)");
  for (const auto& p : all(4))
    for (const auto& q : all(4))
      for (int64_t i = 0; i < 4; ++i) ASSERT_EQ((p * q)(i), p(q(i)));
}

TEST(Permutation, InversesOrdersAndParities) {
  for (const auto& p : all(5)) {
    SCOPED_TRACE(p.to_string());
    EXPECT_TRUE((p * p.inverse()).is_identity());
    EXPECT_TRUE((p.inverse() * p).is_identity());
    Permutation power = p;
    int64_t order = 1;
    for (; !power.is_identity(); power = p * power) ++order;
    EXPECT_EQ(p.order(), order);
    bool odd = false;  // inversions, a count that knows nothing of cycles
    for (int i = 0; i < 5; ++i)
      for (int j = 0; j < i; ++j) odd ^= p(j) > p(i);
    EXPECT_EQ(p.is_odd(), odd);
  }
}

TEST(Permutation, MovedPoints) {
  EXPECT_EQ(Permutation(4).moved_points(), 0);
  EXPECT_EQ(Permutation::parse("(1 3)", 4).moved_points(), 2);
  EXPECT_EQ(Permutation::parse("(1 3)(2 4)", 5).moved_points(), 4);
  EXPECT_TRUE(Permutation(3).is_identity());
  EXPECT_FALSE(Permutation::parse("(2 3)").is_identity());
}

TEST(Permutation, TextAndBack) {
  EXPECT_EQ(Permutation(4).to_string(), "()");
  EXPECT_EQ(Permutation({2, 0, 1, 4, 3, 5}).to_string(), "(1 3 2)(4 5)");
  EXPECT_EQ(Permutation::parse("(3 2 1)(5,4)", 6), Permutation({2, 0, 1, 4, 3, 5}));
  EXPECT_EQ(Permutation::parse(" ( 1 , 2 ) ( 3 ) "), Permutation({1, 0, 2}));
  EXPECT_EQ(Permutation::parse("()", 3), Permutation(3));
  EXPECT_EQ(Permutation::parse("()").degree(), 0);
  EXPECT_EQ(Permutation::parse("(1 12)").degree(), 12);
  for (const auto& p : all(5)) ASSERT_EQ(Permutation::parse(p.to_string(), 5), p);
}

TEST(Permutation, RefusesOtherText) {
  EXPECT_EQ(permutation_error(""), "permutation '': expected '(' at position 1, found the end");
  EXPECT_EQ(permutation_error("1 2"), "permutation '1 2': expected '(' at position 1, found '1'");
  EXPECT_EQ(permutation_error("(1 2"),
            "permutation '(1 2': expected ')' at position 5, found the end");
  EXPECT_EQ(permutation_error("(1 b)"),
            "permutation '(1 b)': expected a point or ')' at position 4, found 'b'");
  EXPECT_EQ(permutation_error("(1,)"),
            "permutation '(1,)': expected a point at position 4, found ')'");
  EXPECT_EQ(permutation_error("(1-2)"),
            "permutation '(1-2)': expected a space, a comma or ')' at position 3, found '-'");
  EXPECT_EQ(permutation_error("(1 2)x"),
            "permutation '(1 2)x': expected '(' at position 6, found 'x'");
  EXPECT_EQ(permutation_error("(0 1)"),
            "permutation '(0 1)': expected a point from 1 to 65535 at position 2, found '0'");
  EXPECT_EQ(
      permutation_error("(1 99999999999999999999)"),
      "permutation '(1 99999999999999999999)': expected a point from 1 to 65535 at position 4, "
      "found '9'");
  EXPECT_EQ(permutation_error("(1 2)(2 3)"),
            "permutation '(1 2)(2 3)': expected disjoint cycles, found 2 twice");
  EXPECT_EQ(permutation_error("(1 6)", 5),
            "permutation '(1 6)': expected points from 1 to 5, found 6");
}

TEST(Permutation, RefusesWhatIsNone) {
  EXPECT_THROW(Permutation({0, 0}), std::invalid_argument);
  EXPECT_THROW(Permutation({0, 2}), std::invalid_argument);
  EXPECT_THROW(Permutation(-1), std::invalid_argument);
  EXPECT_THROW(Permutation(2) * Permutation(3), std::invalid_argument);
}

TEST(Permutation, IdentityComesFirst) {
  const auto sorted = all(4);
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
  EXPECT_TRUE(sorted.front().is_identity());
  EXPECT_LT(Permutation({1, 0}), Permutation(3));
}

}  // namespace
}  // namespace dp
