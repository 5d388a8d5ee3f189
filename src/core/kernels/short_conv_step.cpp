#include "kernels/short_conv_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/short_conv_step.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <cmath>

#include "kernels/activations-inl.h"
#include "kernels/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// x becomes the last row of the history and the first one is dropped; y = silu(bias + sum over w of taps[w] history[w]).
void convolve_and_activate(const ShortConvStep& conv, const float* x,
                           float* HWY_RESTRICT history, float* y) {
  const size_t C = conv.C, last = conv.W - 1;
  for_vectors(C, [&](auto d, size_t c) HWY_ATTR {
    auto z = conv.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, conv.bias + c);
    const auto add_row = [&](size_t w, auto row) HWY_ATTR {
      hn::StoreU(row, d, history + w * C + c);
      z = hn::MulAdd(hn::LoadU(d, conv.taps + w * C + c), row, z);
    };
    for (size_t w = 0; w < last; ++w) add_row(w, hn::LoadU(d, history + (w + 1) * C + c));
    add_row(last, hn::LoadU(d, x + c));
    hn::StoreU(silu(d, z), d, y + c);
  });
}

// To unit length. Squares of more than 1e19 overflow in float32.
void normalise(float* HWY_RESTRICT y, size_t n) {
  constexpr float kEpsilon = 1e-6f;
  float sums[1];
  sum_vectors<1>(n, sums, [&](auto d, size_t i, auto& v) HWY_ATTR {
    const auto x = hn::LoadU(d, y + i);
    v[0] = hn::MulAdd(x, x, v[0]);
  });
  if (!std::isfinite(sums[0])) {
    double squares = kEpsilon;
    for (size_t i = 0; i < n; ++i) squares += double{y[i]} * y[i];
    for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(y[i] / std::sqrt(squares));
    return;
  }
  const float factor = 1 / std::sqrt(sums[0] + kEpsilon);
  for_vectors(n, [&](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Set(d, factor)), d, y + i);
  });
}

void short_conv_step_target(const ShortConvStep& conv, const float* x, float* history, float* y) {
  if (conv.W > 0) {
    convolve_and_activate(conv, x, history, y);
  } else {
    for_vectors(conv.C, [&](auto d, size_t c)
                            HWY_ATTR { hn::StoreU(silu(d, hn::LoadU(d, x + c)), d, y + c); });
  }
  for (size_t c = 0; conv.head_size > 0 && c < conv.C; c += conv.head_size)
    normalise(y + c, conv.head_size);
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(short_conv_step_target);
void short_conv_step(const ShortConvStep& conv, const float* x, float* history, float* y) {
  HWY_DYNAMIC_DISPATCH(short_conv_step_target)(conv, x, history, y);
}
}  // namespace dp
#endif
