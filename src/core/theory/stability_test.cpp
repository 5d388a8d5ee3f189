#include "theory/stability.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "theory/rwkv7.h"

namespace dp::theory {
namespace {

TEST(Stability, ProductsOfDeltaProductNeverGrow) {
  for (const size_t width : {1, 2, 5, 8})
    for (const size_t factors : {1, 2, 4})
      for (const double least_gate : {1.0, 0.5}) {
        const Norms norms = delta_product_norms({.width = width,
                                                 .factors = factors,
                                                 .steps = 60,
                                                 .least_gate = least_gate,
                                                 .seed = width});
        ASSERT_EQ(norms.product.size(), 61u);
        EXPECT_EQ(norms.product.front(), 1);
        for (size_t t = 1; t <= 60; ++t)
          EXPECT_LE(norms.product[t], norms.product[t - 1] * (1 + 1e-14)) << width << " " << t;
      }
}

TEST(Stability, ReflectionsKeepTheNorm) {
  const Norms norms = delta_product_norms({.steps = 200, .least_beta = 2});
  for (const double norm : norms.product) EXPECT_NEAR(norm, 1, 1e-13);
  // Betas above 0 and below 2 forget, so that driven states stay short.
  const Norms driven = delta_product_norms({.steps = 2000, .seed = 3});
  EXPECT_LT(driven.product.back(), 1e-9);
  EXPECT_GT(driven.state.back(), 0.1);
  EXPECT_LT(*std::ranges::max_element(driven.state), 30);
}

TEST(Stability, RejectsWhatIsNoDeltaProduct) {
  EXPECT_THROW(delta_product_norms({.most_beta = 2.1}), std::invalid_argument);
  EXPECT_THROW(delta_product_norms({.least_beta = 1.5, .most_beta = 1}), std::invalid_argument);
  EXPECT_THROW(delta_product_norms({.least_gate = -0.1}), std::invalid_argument);
  EXPECT_THROW(delta_product_norms({.factors = 0}), std::invalid_argument);
  EXPECT_THROW(swap_copy_norms(1, 1, 1), std::invalid_argument);
}

TEST(UnstablePair, HasTheSpectralRadiusInClosedForm) {
  EXPECT_NEAR(unstable_pair_radius(), kUnstablePairRadius, 1e-12);
  EXPECT_NEAR(kUnstablePairRadius, (27 + std::sqrt(153)) / 32, 1e-15);
  // Around pi/3 there are infinitely many such pairs; each transition alone has a radius of 1.
  for (double theta = 1; theta < 1.1; theta += 0.01) {
    const auto [first, second] = unstable_pair(theta);
    EXPECT_GT(unstable_pair_radius(theta), 1.2) << theta;
    EXPECT_LE(spectral_radius(first.matrix()), 1) << theta;
    EXPECT_LE(spectral_radius(second.matrix()), 1) << theta;
  }
}

TEST(UnstablePair, IsUnstableJustBetween45And90Degrees) {
  for (double degrees = 0.5; degrees < 90; ++degrees)
    EXPECT_EQ(unstable_pair_radius(degrees * std::numbers::pi / 180) > 1, degrees > 45) << degrees;
}

TEST(UnstablePair, Diverges) {
  const Norms norms = unstable_pair_norms(200, 1);
  for (size_t t = 2; t <= 200; t += 2)
    EXPECT_GE(norms.product[t], std::pow(kUnstablePairRadius, t / 2) * (1 - 1e-12)) << t;
  EXPECT_NEAR(norms.product[200] / norms.product[198], kUnstablePairRadius, 1e-9);
  EXPECT_GT(norms.product[200], 1e9);
  EXPECT_GT(norms.state[200], 1e6);
}

TEST(Stability, SwapsAndCopiesStayBelowTheRootOfTheStates) {
  double largest = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed)
    for (const double norm : swap_copy_norms(5, 100, seed).product) {
      EXPECT_LE(norm, std::sqrt(5) + 1e-12);
      largest = std::max(largest, norm);
    }
  EXPECT_NEAR(largest, std::sqrt(5), 1e-12);  // all states on one
}

TEST(Stability, SeriesAreForAChart) {
  const std::vector<NormSeries> series = stability_series(20, 3);
  ASSERT_EQ(series.size(), 5u);
  for (const NormSeries& one : series) {
    ASSERT_EQ(one.runs.size(), 3u) << one.label;
    for (const Norms& norms : one.runs) {
      EXPECT_EQ(norms.product.size(), 21u);
      EXPECT_EQ(norms.state.size(), 21u);
      EXPECT_EQ(norms.state.front(), 0);
    }
    EXPECT_NE(one.runs[0].state, one.runs[1].state) << one.label;
  }
}

}  // namespace
}  // namespace dp::theory
