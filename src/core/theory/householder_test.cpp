#include "theory/householder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace dp::theory {
namespace {

constexpr int kDraws = 300;

double draw(std::mt19937_64& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

std::vector<double> draw_direction(size_t n, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> k(n);
  for (double& value : k) value = normal(random);
  const double norm = length(k);
  for (double& value : k) value /= norm;
  return k;
}

double inner(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// `count` orthonormal directions, by Gram and Schmidt, twice for the rounding.
std::vector<std::vector<double>> draw_orthonormal(size_t count, size_t n, std::mt19937_64& random) {
  std::vector<std::vector<double>> directions;
  while (directions.size() < count) {
    std::vector<double> k = draw_direction(n, random);
    for (int pass = 0; pass < 2; ++pass) {
      for (const std::vector<double>& other : directions) {
        const double part = inner(k, other);
        for (size_t i = 0; i < n; ++i) k[i] -= part * other[i];
      }
      const double norm = length(k);
      for (double& value : k) value /= norm;
    }
    directions.push_back(k);
  }
  return directions;
}

// Two unit vectors of R^n at angle theta.
std::pair<std::vector<double>, std::vector<double>> draw_pair(size_t n, double theta,
                                                              std::mt19937_64& random) {
  const auto basis = draw_orthonormal(2, n, random);
  std::vector<double> second(n);
  for (size_t i = 0; i < n; ++i)
    second[i] = std::cos(theta) * basis[0][i] + std::sin(theta) * basis[1][i];
  return {basis[0], second};
}

double largest_imaginary(const Matrix& a) {
  double largest = 0;
  for (const std::complex<double>& value : eigenvalues(a))
    largest = std::max(largest, std::abs(value.imag()));
  return largest;
}

TEST(HouseholderProduct, IsInTheOrderOfALayer) {
  const Factor first{2, {1, 0}}, second{1, {std::sqrt(0.5), std::sqrt(0.5)}};
  const Factor factors[] = {first, second};
  EXPECT_EQ(householder_product(factors), householder(second) * householder(first));
  EXPECT_GT(largest_entry(householder_product(factors) - householder(first) * householder(second)),
            0.5);
  EXPECT_NEAR(householder_product(factors, 0.5)(0, 0), -0.25, 1e-15);
  EXPECT_THROW(householder_product({}), std::invalid_argument);
}

TEST(HouseholderProduct, OfOneDirectionCollapses) {
  std::mt19937_64 random(1);
  for (int i = 0; i < kDraws; ++i) {
    const size_t n = 1 + random() % 8, m = 1 + random() % 6;
    const std::vector<double> k = draw_direction(n, random);
    std::vector<Factor> factors;
    std::vector<double> betas;
    for (size_t j = 0; j < m; ++j) {
      betas.push_back(draw(random, 0, 2));
      factors.push_back({betas.back(), k});
    }
    const Matrix product = householder_product(factors);
    const double beta = collapsed_beta(betas);
    EXPECT_LT(largest_entry(product - householder({beta, k})), 1e-14) << "n " << n << " m " << m;
    EXPECT_GE(beta, 0);
    EXPECT_LE(beta, 2);
    EXPECT_LT(largest_entry(product - transpose(product)), 1e-14);
    EXPECT_LT(largest_imaginary(product), 1e-7);
  }
  // As the paper folds them together, two by two.
  EXPECT_NEAR(collapsed_beta(std::vector{0.3, 1.7}), 0.3 + 1.7 - 0.3 * 1.7, 1e-15);
  EXPECT_EQ(collapsed_beta(std::vector{2.0, 2.0}), 0);  // a reflection undoes itself
}

TEST(HouseholderProduct, OfOrthonormalDirectionsCommutes) {
  std::mt19937_64 random(2);
  for (int i = 0; i < kDraws; ++i) {
    const size_t n = 1 + random() % 8, m = 1 + random() % n;
    std::vector<Factor> factors;
    std::vector<double> expected(n, 1.0);
    const auto directions = draw_orthonormal(m, n, random);
    Matrix sum = identity(n);
    for (size_t j = 0; j < m; ++j) {
      factors.push_back({draw(random, 0, 2), directions[j]});
      expected[j] = 1 - factors[j].beta;
      sum = sum - (identity(n) - householder(factors[j]));
    }
    const Matrix product = householder_product(factors);
    std::ranges::shuffle(factors, random);
    EXPECT_LT(largest_entry(product - householder_product(factors)), 1e-14);
    EXPECT_LT(largest_entry(product - sum), 1e-14);
    EXPECT_LT(largest_entry(product - transpose(product)), 1e-14);
    std::vector<double> found;
    for (const std::complex<double>& value : eigenvalues(product)) found.push_back(value.real());
    std::ranges::sort(found);
    std::ranges::sort(expected);
    for (size_t j = 0; j < n; ++j) EXPECT_NEAR(found[j], expected[j], 1e-12);
    EXPECT_LT(largest_imaginary(product), 1e-12);
  }
}

// Both sides of both bounds, in any dimension, against the eigenvalues themselves.
TEST(HouseholderPair, IsComplexJustBetweenTheBounds) {
  std::mt19937_64 random(3);
  int complex = 0, below = 0, above = 0;
  for (int i = 0; i < 2000; ++i) {
    const size_t n = 2 + random() % 7;
    const double beta1 = draw(random, 1, 2), beta2 = draw(random, 1, 2);
    const auto bounds = complex_bounds(beta1, beta2);
    ASSERT_TRUE(bounds);
    EXPECT_LE(0, bounds->low);
    EXPECT_LT(bounds->low, bounds->high);
    EXPECT_LE(bounds->high, 1);
    double square = draw(random, 0, 1);
    if (i % 4 == 1) square = bounds->low * draw(random, 0.9, 1.1);  // near them, too
    if (i % 4 == 2) square = std::min(1.0, bounds->high * draw(random, 0.9, 1.1));
    if (std::abs(square - bounds->low) < 1e-9 || std::abs(square - bounds->high) < 1e-9) continue;
    const bool between = bounds->low < square && square < bounds->high;
    const double theta = std::acos((random() % 2 ? 1 : -1) * std::sqrt(square));
    const auto [k1, k2] = draw_pair(n, theta, random);
    const std::vector<Factor> factors = {{beta1, k1}, {beta2, k2}};
    SCOPED_TRACE(testing::Message() << "beta " << beta1 << " " << beta2 << " cos^2 " << square);
    EXPECT_EQ(has_complex_pair(beta1, beta2, square), between);
    EXPECT_EQ(largest_imaginary(householder_product(factors)) > 2e-7, between);
    ++(between ? complex : square <= bounds->low ? below : above);
  }
  EXPECT_GT(std::min({complex, below, above}), 100);
}

TEST(HouseholderPair, IsRealIfOneBetaIsAtMostOne) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 1000; ++i) {
    double beta1 = i % 10 == 0 ? 1 : draw(random, 0, 1), beta2 = draw(random, 0, 2);
    if (random() % 2) std::swap(beta1, beta2);
    EXPECT_FALSE(complex_bounds(beta1, beta2));
    const double theta = draw(random, 0, std::numbers::pi), cosine = std::cos(theta);
    EXPECT_FALSE(has_complex_pair(beta1, beta2, cosine * cosine));
    const auto [k1, k2] = draw_pair(2 + random() % 7, theta, random);
    const std::vector<Factor> factors = {{beta1, k1}, {beta2, k2}};
    EXPECT_LT(largest_imaginary(householder_product(factors)), 1e-7) << beta1 << " " << beta2;
  }
}

TEST(HouseholderPair, OfReflectionsIsARotation) {
  EXPECT_NEAR(complex_bounds(2, 2)->low, 0, 1e-15);
  EXPECT_NEAR(complex_bounds(2, 2)->high, 1, 1e-15);
  const double theta = 0.4;
  const Factor factors[] = {{2, {1, 0}}, {2, {std::cos(theta), std::sin(theta)}}};
  for (const std::complex<double>& value : eigenvalues(householder_product(factors))) {
    EXPECT_NEAR(std::abs(value), 1, 1e-14);
    EXPECT_NEAR(std::abs(std::arg(value)), 2 * theta, 1e-14);
  }
}

// Above the threshold all pairs are complex; a hair below it there is one that is not.
TEST(HouseholderPair, ThresholdIsSufficientAndTheLeast) {
  std::mt19937_64 random(5);
  for (double theta = 0.01; theta < 1.57; theta += 0.02) {
    const double square = std::cos(theta) * std::cos(theta), least = complex_threshold(theta);
    EXPECT_GT(least, 1);
    EXPECT_LT(least, 2);
    for (int i = 0; i < 100; ++i)
      EXPECT_TRUE(
          has_complex_pair(draw(random, least + 1e-9, 2), draw(random, least + 1e-9, 2), square))
          << theta;
    EXPECT_TRUE(has_complex_pair(2, least + 1e-9, square)) << theta;
    const double lower = least - 1e-6;
    EXPECT_TRUE(!has_complex_pair(lower, lower, square) || !has_complex_pair(2, lower, square))
        << theta;
    const double equal = equal_beta_threshold(theta);
    EXPECT_TRUE(has_complex_pair(equal + 1e-6, equal + 1e-6, square)) << theta;
    EXPECT_FALSE(has_complex_pair(equal - 1e-6, equal - 1e-6, square)) << theta;
  }
  EXPECT_NEAR(complex_threshold(0), 2, 1e-15);
  EXPECT_NEAR(complex_threshold(std::numbers::pi / 2), 2, 1e-15);
}

TEST(ComplexRegion, AgreesWithTheClosedFormAndItsBoundary) {
  for (const double degrees : {10.0, 30.0, 45.0, 60.0, 85.0}) {
    const ComplexRegion region = complex_region(degrees * std::numbers::pi / 180, 24);
    EXPECT_EQ(region.disagreements, 0) << degrees;
    int64_t complex = 0;
    for (const auto& row : region.argument)
      complex += std::ranges::count_if(row, [](double argument) { return argument > 0; });
    EXPECT_GT(complex, 0) << degrees;
    const double square = std::pow(std::cos(region.theta), 2);
    EXPECT_EQ(region.boundary.size(), degrees > 45 ? 3u : 1u);
    for (const auto& line : region.boundary)
      for (const auto& [beta1, beta2] : line) {
        EXPECT_NEAR(discriminant(beta1, beta2, square), 0, 1e-12) << beta1 << " " << beta2;
        EXPECT_LE(std::max(beta1, beta2), 2 + 1e-12);
        EXPECT_GE(std::min(beta1, beta2), 1);
      }
  }
  const ComplexRegion equal = equal_beta_region(24);
  EXPECT_EQ(equal.disagreements, 0);
  // Nearly two reflections turn by twice the angle between them.
  EXPECT_NEAR(equal.argument[3].back(), 2 * equal.y[3], 0.1);
}

// Transitions of a layer: gate times 1 to 6 factors.
TEST(HouseholderProduct, NeverLengthens) {
  std::mt19937_64 random(6);
  for (size_t n = 1; n <= 8; ++n)
    for (size_t m = 1; m <= 6; ++m)
      for (int i = 0; i < 20; ++i) {
        std::vector<Factor> factors;
        for (size_t j = 0; j < m; ++j)
          factors.push_back({i % 4 == 0 ? 2.0 : draw(random, 0, 2), draw_direction(n, random)});
        const double gate = i % 2 ? draw(random, 0, 1) : 1;
        const Matrix product = householder_product(factors, gate);
        EXPECT_LE(spectral_norm(product), gate + 1e-14) << n << " " << m;
        EXPECT_LE(spectral_radius(product), gate + 1e-14) << n << " " << m;
      }
}

}  // namespace
}  // namespace dp::theory
