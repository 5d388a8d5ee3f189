#include "analysis/pca.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "analysis/analysis.h"

namespace dp::analysis {
namespace {

// Points at +-a along a turned first axis and +-b along the second, around a mean: variances a^2/2, b^2/2.
struct Cross {
  double a = 3, b = 1, c = std::cos(0.7), s = std::sin(0.7);
  at::Tensor points() const {
    at::Tensor x = at::zeros({4, 3}, at::kDouble);
    const double rows[4][2] = {{a * c, a * s}, {-a * c, -a * s}, {-b * s, b * c}, {b * s, -b * c}};
    for (int i = 0; i < 4; ++i) x[i][0] = rows[i][0] + 5, x[i][1] = rows[i][1] - 2;
    return x;
  }
};

TEST(Pca, FindsKnownVariancesAndDirections) {
  const Cross cross;
  Moments moments(3);
  moments.add(cross.points().slice(0, 0, 1));  // in two batches
  moments.add(cross.points().slice(0, 1));
  const Pca pca = moments.pca(true);
  EXPECT_NEAR(pca.variance[0], 4.5, 1e-12);
  EXPECT_NEAR(pca.variance[1], 0.5, 1e-12);
  EXPECT_NEAR(pca.variance[2], 0, 1e-12);
  EXPECT_NEAR(pca.mean[0].item<double>(), 5, 1e-12);
  EXPECT_NEAR(pca.components[0][0].item<double>(), cross.c, 1e-12);
  EXPECT_NEAR(pca.components[0][1].item<double>(), cross.s, 1e-12);
  EXPECT_NEAR(pca.cumulative()[0], 0.9, 1e-12);
  EXPECT_NEAR(pca.cumulative()[2], 1, 1e-12);
  const at::Tensor places = pca.coordinates(cross.points(), 2);
  EXPECT_NEAR(places[1][0].item<double>(), -3, 1e-12);
  EXPECT_NEAR(places[1][1].item<double>(), 0, 1e-12);
  EXPECT_NEAR(std::abs(places[2][1].item<double>()), 1, 1e-12);
}

TEST(Pca, CountsTheMeanOnlyIfNotCentred) {
  Moments moments(2);
  moments.add(at::tensor({1.0, 0.1, 1.0, -0.1}).view({2, 2}));
  EXPECT_NEAR(moments.pca(true).components[0][1].item<double>(), 1, 1e-9);
  const Pca uncentred = moments.pca(false);
  EXPECT_NEAR(uncentred.components[0][0].item<double>(), 1, 1e-9);
  EXPECT_NEAR(uncentred.variance[0], 1, 1e-9);
  EXPECT_NEAR(uncentred.variance[1], 0.01, 1e-9);
}

TEST(Pca, MomentsOfPartsAreThoseOfTheWhole) {
  const at::Tensor x = Cross().points();
  Moments whole(3), first(3), second(3);
  whole.add(x);
  first.add(x.slice(0, 0, 2));
  second.add(x.slice(0, 2));
  first.add(second);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(first.pca(true).variance[i], whole.pca(true).variance[i], 1e-12);
}

TEST(Pca, HasNothingToExplainWhereNothingVaries) {
  Moments moments(2);
  moments.add(at::ones({5, 2}));
  EXPECT_EQ(moments.pca(true).cumulative(), (std::vector<double>{1, 1}));
}

TEST(ComponentsFor, CountsTheFirstThatSuffices) {
  EXPECT_EQ(components_for({0.5, 0.95, 1}, 0.95), 2);
  EXPECT_EQ(components_for({0.99, 1, 1}, 0.95), 1);
  EXPECT_EQ(components_for({0.5, 0.9, 0.94}, 0.95), 3);
}

}  // namespace
}  // namespace dp::analysis
