#include "theory/representation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace dp::theory {
namespace {

std::vector<int32_t> all_elements(const FiniteGroup& group) {
  std::vector<int32_t> all(static_cast<size_t>(group.order()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Matrix reflection_product(const std::vector<std::vector<double>>& keys, size_t n) {
  Matrix product = identity(n);
  for (const auto& k : keys) {
    Matrix h = identity(n);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) h(i, j) -= 2 * k[i] * k[j];
    product = h * product;
  }
  return product;
}

// Of I - Q, by elimination with full pivoting.
size_t rank_of_difference(const Matrix& q) {
  Matrix m = identity(q.rows()) - q;
  size_t rank = 0;
  std::vector<bool> used(q.rows());
  for (size_t j = 0; j < q.rows(); ++j) {
    size_t pivot = q.rows();
    for (size_t i = 0; i < q.rows(); ++i)
      if (!used[i] && std::abs(m(i, j)) > 1e-7 &&
          (pivot == q.rows() || std::abs(m(i, j)) > std::abs(m(pivot, j))))
        pivot = i;
    if (pivot == q.rows()) continue;
    used[pivot] = true, ++rank;
    for (size_t i = 0; i < q.rows(); ++i) {
      if (i == pivot) continue;
      const double factor = m(i, j) / m(pivot, j);
      for (size_t c = 0; c < q.rows(); ++c) m(i, c) -= factor * m(pivot, c);
    }
  }
  return rank;
}

struct Case {
  const char* group;
  std::optional<Representation> (*find)(const FiniteGroup&);
  size_t dimension, most_reflections;

  Representation make(const FiniteGroup& g) const { return find(g).value(); }
};

std::optional<Representation> permutations(const FiniteGroup& group) {
  return permutation_matrices(group);
}
std::optional<Representation> with_sign(const FiniteGroup& group) { return signed_matrices(group); }

const Case kCases[] = {
    {"Z1", plane_isometries, 2, 0},    {"Z2", plane_isometries, 2, 2},
    {"Z7", plane_isometries, 2, 2},    {"D2", plane_isometries, 2, 2},
    {"D5", plane_isometries, 2, 2},    {"S3", plane_isometries, 2, 2},
    {"S3xZ2", plane_isometries, 2, 2}, {"Z2xZ2", plane_isometries, 2, 2},
    {"Z2xZ3", plane_isometries, 2, 2}, {"S4", solid_rotations, 3, 2},
    {"A4", solid_rotations, 3, 2},     {"A5", solid_rotations, 3, 2},
    {"A4xZ2", solid_isometries, 3, 3}, {"S4xZ2", solid_isometries, 3, 3},
    {"A5xZ2", solid_isometries, 3, 3}, {"S3", permutations, 3, 2},
    {"S5", permutations, 5, 4},        {"A5", permutations, 5, 4},
    {"S3xZ2", permutations, 5, 3},     {"A6", with_sign, 5, 4},
    {"S6", with_sign, 5, 4},
};

TEST(Representation, RespectsProducts) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.group);
    const FiniteGroup group = FiniteGroup::parse(c.group);
    const Representation r = c.make(group);
    EXPECT_EQ(r.dimension(), c.dimension);
    double error = 0, nearest = 10;
    for (int32_t a = 0; a < group.order(); ++a) {
      const Matrix& A = r.matrices[static_cast<size_t>(a)];
      error = std::max(error, largest_entry(transpose(A) * A - identity(r.dimension())));
      for (int32_t b = 0; b < group.order(); ++b) {
        const Matrix& B = r.matrices[static_cast<size_t>(b)];
        error = std::max(
            error, largest_entry(r.matrices[static_cast<size_t>(group.multiply(a, b))] - A * B));
        if (a != b) nearest = std::min(nearest, largest_entry(A - B));
      }
    }
    EXPECT_LT(error, 1e-12);
    EXPECT_GT(nearest, 0.3) << "two elements have the same matrix";
  }
}

TEST(Reflections, AreTheMatrixAndAsFewAsItsRank) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.group);
    const FiniteGroup group = FiniteGroup::parse(c.group);
    const Representation r = c.make(group);
    EXPECT_EQ(static_cast<size_t>(most_reflections(r, all_elements(group))), c.most_reflections);
    for (const Matrix& q : r.matrices) {
      const auto keys = reflections(q);
      EXPECT_EQ(keys.size(), rank_of_difference(q));
      EXPECT_LT(largest_entry(reflection_product(keys, q.rows()) - q), 1e-12);
      for (const auto& k : keys) EXPECT_NEAR(length(k), 1, 1e-12);
    }
  }
}

TEST(Reflections, OfRandomOrthogonalMatrices) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (int draw = 0; draw < 200; ++draw) {
    const size_t n = 1 + draw % 7, factors = random() % (n + 1);
    std::vector<std::vector<double>> keys(factors, std::vector<double>(n));
    for (auto& k : keys) {
      for (double& entry : k) entry = normal(random);
      const double size = length(k);
      for (double& entry : k) entry /= size;
    }
    const Matrix q = reflection_product(keys, n);
    const auto found = reflections(q);
    EXPECT_EQ(found.size(), factors) << "random directions are independent";
    EXPECT_LT(largest_entry(reflection_product(found, n) - q), 1e-9);
  }
}

TEST(Reflections, OfPermutationsAreTranspositions) {
  const Representation r = permutation_matrices(FiniteGroup::parse("S4"));
  for (const Matrix& q : r.matrices) {
    for (const auto& k : reflections(q)) {
      int nonzero = 0;
      for (const double entry : k) nonzero += std::abs(entry) > 1e-12;
      EXPECT_EQ(nonzero, 2);
    }
  }
}

TEST(Reflections, RefusesWhatIsNotOrthogonal) {
  Matrix m = identity(2);
  m(0, 1) = 0.5;
  EXPECT_THROW(reflections(m), std::invalid_argument);
}

TEST(Representation, OtherGroupsAreNotRecognised) {
  EXPECT_FALSE(plane_isometries(FiniteGroup::parse("A4")));
  EXPECT_FALSE(plane_isometries(FiniteGroup::parse("Z3xZ3")));
  EXPECT_FALSE(plane_isometries(FiniteGroup::parse("D4xZ2")));
  EXPECT_FALSE(solid_rotations(FiniteGroup::parse("D12"))) << "as many elements as S4";
  EXPECT_FALSE(solid_rotations(FiniteGroup::parse("A4xZ2"))) << "as many elements as S4";
  EXPECT_FALSE(solid_isometries(FiniteGroup::parse("S4")))
      << "A4 with something else than Z2 beside it";
  EXPECT_FALSE(solid_isometries(FiniteGroup::parse("S5"))) << "as many elements as A5xZ2";
}

TEST(Representation, TheSmallestComesFirst) {
  const auto smallest = [](const char* name) {
    const FiniteGroup group = FiniteGroup::parse(name);
    const RepresentationChoice choice = known_representations(group, all_elements(group)).front();
    std::string names;
    for (const Representation& part : choice.parts)
      names += (names.empty() ? "" : "; ") + part.name;
    return std::to_string(choice.reflections) + ": " + names;
  };
  EXPECT_EQ(smallest("A5"), "2: rotations of the icosahedron");
  EXPECT_EQ(smallest("S4"), "2: rotations of the cube");
  EXPECT_EQ(smallest("A4"), "2: rotations of the tetrahedron");
  EXPECT_EQ(smallest("D9"), "2: rotations and reflections of the plane");
  EXPECT_EQ(smallest("S3"), "2: rotations and reflections of the plane");
  EXPECT_EQ(smallest("Z2"), "1: permutation matrices") << "one reflection is enough";
  EXPECT_EQ(smallest("Z2xZ2"), "1: permutation matrices; permutation matrices");
  EXPECT_EQ(smallest("A6"), "4: permutation matrices on the vectors of sum 0, with the sign");
  EXPECT_EQ(smallest("A5xZ2"), "2: rotations of the icosahedron; permutation matrices");
}

}  // namespace
}  // namespace dp::theory
