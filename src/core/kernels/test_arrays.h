// What the tests of the pointwise kernels share: random arrays, the measure of error, SIMD targets.
#pragma once
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace dp {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline Floats normal_floats(size_t size, unsigned seed, float deviation = 1) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> distribution(0, deviation);
  Floats out(size);
  for (float& x : out) x = distribution(rng);
  return out;
}

inline Doubles to_double(const Floats& x) { return Doubles(x.begin(), x.end()); }

/// Largest |got - want| over the largest |want|; infinite if anything is NaN.
inline double relative_error(const Floats& got, const Doubles& want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0, largest = 1e-30;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const double difference = std::abs(got[i] - want[i]);
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
    largest = std::max(largest, std::abs(want[i]));
  }
  return error / largest;
}

/// Runs a test once per SIMD target of this machine.
class PointwiseOnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

inline std::string target_name(const testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

}  // namespace dp

#define DP_INSTANTIATE_ON_EVERY_TARGET(Suite)                                                      \
  INSTANTIATE_TEST_SUITE_P(Targets, Suite, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), \
                           target_name)
