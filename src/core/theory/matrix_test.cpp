#include "theory/matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace dp::theory {
namespace {

Matrix random_matrix(size_t rows, size_t columns, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Matrix a(rows, columns);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) a(i, j) = normal(random);
  return a;
}

double trace(const Matrix& a) {
  double sum = 0;
  for (size_t i = 0; i < a.rows(); ++i) sum += a(i, i);
  return sum;
}

// The sums of the eigenvalues' powers are traces, and these sums determine the eigenvalues.
TEST(Eigenvalues, HaveTheRightPowerSums) {
  std::mt19937 random(1);
  for (size_t n = 1; n <= 12; ++n)
    for (int trial = 0; trial < 20; ++trial) {
      const Matrix a = random_matrix(n, n, random);
      const auto values = eigenvalues(a);
      ASSERT_EQ(values.size(), n);
      const double radius = spectral_radius(a);
      Matrix power = a;
      for (size_t exponent = 1; exponent <= n; ++exponent, power = power * a) {
        std::complex<double> sum = 0;
        for (const auto& value : values) sum += std::pow(value, static_cast<double>(exponent));
        EXPECT_NEAR(sum.real(), trace(power), 1e-11 * std::pow(std::max(1.0, radius), exponent));
        EXPECT_NEAR(sum.imag(), 0, 1e-11 * std::pow(std::max(1.0, radius), exponent));
      }
    }
}

TEST(Eigenvalues, AreExactlyRealOrConjugatePairs) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 50; ++trial) {
    const auto values = eigenvalues(random_matrix(7, 7, random));
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].imag() == 0) continue;
      ASSERT_GT(values[i].imag(), 0);
      ASSERT_LT(i + 1, values.size());
      EXPECT_EQ(values[i + 1], std::conj(values[i]));
      ++i;
    }
  }
}

// Usual shifts leave a cycle as it is.
TEST(Eigenvalues, OfCyclesAreRootsOfUnity) {
  for (size_t n = 2; n <= 12; ++n) {
    Matrix cycle(n, n);
    for (size_t i = 0; i < n; ++i) cycle((i + 1) % n, i) = 1;
    std::vector<double> angles;
    for (const auto& value : eigenvalues(cycle)) {
      EXPECT_NEAR(std::abs(value), 1, 1e-13);
      const double turns = std::arg(value) / (2 * std::numbers::pi) * static_cast<double>(n);
      angles.push_back(std::fmod(turns + static_cast<double>(n) + 0.5, static_cast<double>(n)));
    }
    std::ranges::sort(angles);
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(angles[i], static_cast<double>(i) + 0.5, 1e-12);
  }
}

TEST(Eigenvalues, OfSpecialMatrices) {
  for (const auto& value : eigenvalues(identity(5))) EXPECT_EQ(value, 1.0);
  for (const auto& value : eigenvalues(Matrix(4, 4))) EXPECT_EQ(value, 0.0);
  Matrix nilpotent(3, 3);
  nilpotent(0, 1) = nilpotent(1, 2) = 1;
  EXPECT_EQ(spectral_radius(nilpotent), 0);
  EXPECT_TRUE(eigenvalues(Matrix(0, 0)).empty());
  EXPECT_THROW(eigenvalues(Matrix(2, 3)), std::invalid_argument);
}

TEST(SpectralNorm, IsTheLargestSingularValue) {
  std::mt19937 random(3);
  for (size_t rows = 1; rows <= 9; rows += 2)
    for (size_t columns = 1; columns <= 9; columns += 2) {
      const Matrix a = random_matrix(rows, columns, random);
      const double norm = spectral_norm(a);
      EXPECT_NEAR(norm * norm, spectral_radius(transpose(a) * a), 1e-12 * norm * norm);
    }
  EXPECT_EQ(spectral_norm(Matrix(3, 3)), 0);
  Matrix rank_one(3, 3);
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j) rank_one(i, j) = 2;
  EXPECT_NEAR(spectral_norm(rank_one), 6, 1e-14);
}

}  // namespace
}  // namespace dp::theory
