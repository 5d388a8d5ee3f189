// Sigmoid and SiLU against double precision, over the whole range of float32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activations_test.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <cstddef>

#include "kernels/activations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// n is a multiple of every number of lanes.
void activations_target(const float* x, size_t n, float* s, float* y, float* y2, float* dy) {
  const hn::CappedTag<float, 16> d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, x + i);
    hn::Vec<decltype(d)> value, derivative;
    silu_and_derivative(d, v, value, derivative);
    hn::StoreU(sigmoid(d, v), d, s + i);
    hn::StoreU(silu(d, v), d, y + i);
    hn::StoreU(value, d, y2 + i);
    hn::StoreU(derivative, d, dy + i);
  }
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <limits>
#include <vector>

namespace dp {
HWY_EXPORT(activations_target);
namespace {

TEST(Activations, MatchDoublePrecisionOnEveryTarget) {
  std::vector<float> x;
  for (int i = -120'000; i <= 120'000; ++i) x.push_back(static_cast<float>(i) / 1000);
  for (const float magnitude : {1e-40f, 1e-20f, 1e-3f, 1e5f, 1e15f, 1e30f, 3.4e38f})
    x.insert(x.end(), {magnitude, -magnitude});
  while (x.size() % 16 != 0) x.push_back(0);
  constexpr double kUlp = std::numeric_limits<float>::epsilon();
  // Below x = -88.4 exp(-x) is infinite in float32, and what remains of a result counts as nothing.
  constexpr double kNothing = 1e-36;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    std::vector<float> s(x.size()), y(x.size()), y2(x.size()), dy(x.size());
    HWY_DYNAMIC_DISPATCH(activations_target)
    (x.data(), x.size(), s.data(), y.data(), y2.data(), dy.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = x[i], sigmoid = 1 / (1 + std::exp(-exact)),
                   rest = 1 / (1 + std::exp(exact));
      const double silu = exact * sigmoid, derivative = sigmoid + silu * rest;
      ASSERT_NEAR(s[i], sigmoid, 2 * kUlp * sigmoid + kNothing) << "sigmoid " << x[i];
      ASSERT_NEAR(y[i], silu, 2 * kUlp * std::abs(silu) + kNothing) << "silu " << x[i];
      ASSERT_NEAR(y2[i], silu, 2 * kUlp * std::abs(silu) + kNothing) << "silu " << x[i];
      // Two terms of opposite signs, which cancel near x = -1.28.
      ASSERT_NEAR(dy[i], derivative, 4 * kUlp * (sigmoid + std::abs(silu * rest)) + kNothing)
          << "derivative at " << x[i];
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace
}  // namespace dp
#endif
