#include "algebra/group.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/test_input_error.h"

namespace dp {
namespace {

/// How many elements there are of each order.
std::map<int64_t, int> orders(const FiniteGroup& group) {
  std::map<int64_t, int> count;
  for (int32_t a = 0; a < group.order(); ++a) ++count[group.permutation(a).order()];
  return count;
}

using Orders = std::map<int64_t, int>;

std::string group_error(std::string_view text) {
  return input_error([&] { FiniteGroup::parse(text); });
}

TEST(FiniteGroup, Axioms) {
  for (const char* name :
       {"Z1", "S1", "A2", "D1", "D2", "Z7", "S3", "D4", "A4", "S4", "S3xZ2", "Z2xZ2xZ2", "D3xA3"}) {
    SCOPED_TRACE(name);
    const FiniteGroup group = FiniteGroup::parse(name);
    EXPECT_EQ(group.name(), name);
    EXPECT_TRUE(group.permutation(group.identity()).is_identity());
    for (int32_t a = 0; a < group.order(); ++a) {
      ASSERT_EQ(group.multiply(a, 0), a);
      ASSERT_EQ(group.multiply(0, a), a);
      ASSERT_EQ(group.multiply(a, group.inverse(a)), 0);
      ASSERT_EQ(group.multiply(group.inverse(a), a), 0);
      ASSERT_EQ(group.find(group.permutation(a)), a);
      for (int32_t b = 0; b < group.order(); ++b) {
        const int32_t ab = group.multiply(a, b);
        ASSERT_EQ(group.permutation(ab), group.permutation(a) * group.permutation(b));
        for (int32_t c = 0; c < group.order(); ++c)
          ASSERT_EQ(group.multiply(ab, c), group.multiply(a, group.multiply(b, c)));
      }
    }
  }
}

TEST(FiniteGroup, OrdersOfGroupsAndElements) {
  const std::pair<const char*, Orders> known[] = {
      {"Z6", {{1, 1}, {2, 1}, {3, 2}, {6, 2}}},
      {"D1", {{1, 1}, {2, 1}}},
      {"D2", {{1, 1}, {2, 3}}},
      {"D4", {{1, 1}, {2, 5}, {4, 2}}},
      {"D5", {{1, 1}, {2, 5}, {5, 4}}},
      {"S3", {{1, 1}, {2, 3}, {3, 2}}},
      {"S4", {{1, 1}, {2, 9}, {3, 8}, {4, 6}}},
      {"A4", {{1, 1}, {2, 3}, {3, 8}}},
      {"A5", {{1, 1}, {2, 15}, {3, 20}, {5, 24}}},  // none of order 6
      {"S5", {{1, 1}, {2, 25}, {3, 20}, {4, 30}, {5, 24}, {6, 20}}},
      {"Z2xZ2xZ2", {{1, 1}, {2, 7}}},
      {"Z2xZ3", {{1, 1}, {2, 1}, {3, 2}, {6, 2}}},
      {"S3xZ2", {{1, 1}, {2, 7}, {3, 2}, {6, 2}}},
  };
  for (const auto& [name, expected] : known)
    EXPECT_EQ(orders(FiniteGroup::parse(name)), expected) << name;
}

TEST(FiniteGroup, Abelian) {
  for (const char* name : {"Z1", "Z12", "S2", "A3", "D1", "D2", "Z2xZ4xZ3"})
    EXPECT_TRUE(FiniteGroup::parse(name).is_abelian()) << name;
  for (const char* name : {"S3", "A4", "D3", "D4", "S3xZ2", "Z2xA4"})
    EXPECT_FALSE(FiniteGroup::parse(name).is_abelian()) << name;
}

TEST(FiniteGroup, LargestOnes) {
  const FiniteGroup s7 = FiniteGroup::parse("S7");
  EXPECT_EQ(s7.order(), 5040);
  const FiniteGroup a8 = FiniteGroup::parse("A8");  // beyond the table
  EXPECT_EQ(a8.order(), 20160);
  for (const FiniteGroup* group : {&s7, &a8}) {
    for (int32_t a = 0; a < group->order(); a += 97) {
      for (int32_t b = 0; b < group->order(); b += 89) {
        ASSERT_EQ(group->permutation(group->multiply(a, b)),
                  group->permutation(a) * group->permutation(b));
      }
    }
  }
}

TEST(FiniteGroup, NumbersAndNamesOfElements) {
  const FiniteGroup z5 = FiniteGroup::cyclic(5);
  for (int32_t a = 0; a < 5; ++a) {
    EXPECT_EQ(z5.element_name(a), std::to_string(a));
    for (int32_t b = 0; b < 5; ++b) EXPECT_EQ(z5.multiply(a, b), (a + b) % 5);
  }
  const FiniteGroup s3 = FiniteGroup::symmetric(3);
  const char* names[] = {"()", "(2 3)", "(1 2)", "(1 2 3)", "(1 3 2)", "(1 3)"};
  for (int32_t a = 0; a < 6; ++a) EXPECT_EQ(s3.element_name(a), names[a]);

  const FiniteGroup pairs = FiniteGroup::parse("S3xZ2"), z2 = FiniteGroup::cyclic(2);
  EXPECT_EQ(pairs.degree(), 5);
  EXPECT_EQ(pairs.element_name(2 * 2 + 1), "(1 2),1");
  for (int32_t a = 0; a < 12; ++a)
    for (int32_t b = 0; b < 12; ++b)
      ASSERT_EQ(pairs.multiply(a, b), 2 * s3.multiply(a / 2, b / 2) + z2.multiply(a % 2, b % 2));
  EXPECT_EQ(FiniteGroup::parse("Z2xZ3xZ2").element_name(7), "1,0,1");
}

// The paper's rules: r_i r_j = r_{i+j}, r_i s_j = s_{i+j}, s_i r_j = s_{i-j}, s_i s_j = r_{i-j}.
TEST(FiniteGroup, DihedralRules) {
  for (const int64_t n : {1, 2, 3, 4, 7}) {
    const FiniteGroup group = FiniteGroup::dihedral(n);
    ASSERT_EQ(group.order(), 2 * n);
    std::map<std::string, int32_t> element;
    for (int32_t a = 0; a < group.order(); ++a) element[group.element_name(a)] = a;
    const auto at = [&](char kind, int64_t k) {
      return element.at(kind + std::to_string((k + n) % n));
    };
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        EXPECT_EQ(group.multiply(at('r', i), at('r', j)), at('r', i + j));
        EXPECT_EQ(group.multiply(at('r', i), at('s', j)), at('s', i + j));
        EXPECT_EQ(group.multiply(at('s', i), at('r', j)), at('s', i - j));
        EXPECT_EQ(group.multiply(at('s', i), at('s', j)), at('r', i - j));
      }
    }
  }
}

TEST(FiniteGroup, ClosureOfGenerators) {
  const Permutation quaternions[] = {Permutation::parse("(1 2 3 4)(5 6 7 8)"),
                                     Permutation::parse("(1 5 3 7)(2 8 4 6)")};
  const FiniteGroup q8 = FiniteGroup::generated_by("Q8", quaternions);
  EXPECT_EQ(orders(q8), (Orders{{1, 1}, {2, 1}, {4, 6}}));
  EXPECT_FALSE(q8.is_abelian());

  const Permutation too_many[] = {Permutation::parse("(1 2)", 8),
                                  Permutation::parse("(1 2 3 4 5 6 7 8)")};
  EXPECT_THROW(FiniteGroup::generated_by("S8", too_many), InputError);
  EXPECT_THROW(FiniteGroup::generated_by("none", {}), std::invalid_argument);
  const Permutation uneven[] = {Permutation(3), Permutation(4)};
  EXPECT_THROW(FiniteGroup::generated_by("uneven", uneven), std::invalid_argument);
}

TEST(FiniteGroup, Subgroups) {
  const FiniteGroup s4 = FiniteGroup::symmetric(4);
  std::vector<int32_t> transpositions, three_cycles;
  for (int32_t a = 0; a < s4.order(); ++a) {
    if (s4.permutation(a).moved_points() == 2) transpositions.push_back(a);
    if (s4.permutation(a).moved_points() == 3) three_cycles.push_back(a);
  }
  EXPECT_EQ(s4.subgroup(transpositions).size(), 24);
  const auto even = s4.subgroup(three_cycles);
  EXPECT_EQ(even.size(), 12);
  for (const int32_t a : even) EXPECT_FALSE(s4.permutation(a).is_odd());
  EXPECT_EQ(s4.subgroup({}), std::vector<int32_t>{0});
}

TEST(FiniteGroup, RefusesOtherNames) {
  const std::string hint = "; groups are named like S3, A5, Z7, D4, S3xZ2";
  EXPECT_EQ(
      group_error(""),
      "group '': expected one of the families Z, D, S and A at position 1, found the end" + hint);
  EXPECT_EQ(
      group_error("Q8"),
      "group 'Q8': expected one of the families Z, D, S and A at position 1, found 'Q'" + hint);
  EXPECT_EQ(group_error("S"),
            "group 'S': expected a number from 1 on at position 2, found the end" + hint);
  EXPECT_EQ(group_error("S0"),
            "group 'S0': expected a number from 1 on at position 2, found '0'" + hint);
  EXPECT_EQ(group_error("S3*Z2"),
            "group 'S3*Z2': expected 'x' or the end at position 3, found '*'" + hint);
  EXPECT_EQ(group_error("S3x"),
            "group 'S3x': expected one of the families Z, D, S and A at position 4, found the end" +
                hint);
  EXPECT_EQ(group_error("S3 "),
            "group 'S3 ': expected 'x' or the end at position 3, found ' '" + hint);
  EXPECT_EQ(group_error("S8"),
            "group 'S8': expected a group of at most 20160 elements, found more with 'S8' at "
            "position 1");
  EXPECT_EQ(group_error("S7xS3"),
            "group 'S7xS3': expected a group of at most 20160 elements, found more with 'S3' at "
            "position 4");
  EXPECT_EQ(group_error("Z1025"),
            "group 'Z1025': expected a group of at most 1024 points to act on, found more with "
            "'Z1025' at position 1");
  EXPECT_EQ(group_error("Z99999999999999999999"),
            "group 'Z99999999999999999999': expected a group of at most 20160 elements, found more "
            "with 'Z99999999999999999999' at position 1");
}

}  // namespace
}  // namespace dp
