#include "theory/preactivation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dp::theory {
namespace {

TEST(Preactivation, InvertsSilu) {
  for (const double y : {-0.278, -0.1, -1e-6, 0.0, 1e-6, 0.3, 1.0, 17.0, 64.0})
    EXPECT_NEAR(silu(inverse_silu(y)), y, 1e-12 * std::max(1.0, y));
  EXPECT_NEAR(silu(kLeastSiluAt), kLeastSilu, 1e-15);
  EXPECT_THROW(inverse_silu(-0.28), std::invalid_argument);
  EXPECT_THROW(inverse_silu(NAN), std::invalid_argument);
}

// The cosine of the angle between k and what the layer makes of u, in double precision.
double cosine(const std::vector<double>& k, const std::vector<double>& u) {
  double product = 0, square = 0;
  for (size_t i = 0; i < k.size(); ++i)
    product += silu(u[i]) * k[i], square += silu(u[i]) * silu(u[i]);
  return product / std::sqrt(square);
}

const std::vector<double> kKeys[] = {
    {1}, {0, 1}, {std::sqrt(0.5), -std::sqrt(0.5)}, {0.6, -0.8}, {0.48, -0.6, 0.64}};

TEST(Preactivation, HasTheDirection) {
  for (const auto& k : kKeys) EXPECT_NEAR(cosine(k, unit_preactivations(k)), 1, 1e-14);
}

TEST(Preactivation, BfloatsComeClose) {
  for (const auto& k : kKeys) {
    const auto u = unit_preactivations(k, Grid::kBfloat16);
    for (const double entry : u) {
      const auto single = static_cast<float>(entry);
      uint32_t bits = 0;
      std::memcpy(&bits, &single, sizeof bits);
      EXPECT_EQ(bits & 0xffff, 0u) << entry << " is no bfloat16";
      EXPECT_EQ(single, entry);
    }
    EXPECT_GT(cosine(k, u), 1 - 5e-8) << "more than 3e-4 off; rounding alone makes 1e-3";
  }
}

}  // namespace
}  // namespace dp::theory
