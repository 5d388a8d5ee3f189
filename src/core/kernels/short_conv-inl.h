// What forward and backward pass of the short convolution share: the convolution itself.
#if defined(DP_KERNELS_SHORT_CONV_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_SHORT_CONV_INL_H_
#undef DP_KERNELS_SHORT_CONV_INL_H_
#else
#define DP_KERNELS_SHORT_CONV_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/short_conv_block.h"
#include "kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Channels by vectors, the rest one by one.
using Vectors = hn::CappedTag<float, 16>;
using Singles = hn::CappedTag<float, 1>;

constexpr size_t kAnyWidth = ~size_t{0};  // as a template argument: W is known at run time only
constexpr size_t kGroup = 4;              // tokens
constexpr float kEpsilon = 1e-6f;

#define DP_EACH_TOKEN DP_FOR (g, kG)

// Groups of kG tokens: `rows` [W-1+kG] are the inputs of the first one's taps, and on. Other arrays of
// a group have a row of `stride` floats per token.
struct Filter {
  const float* taps;  // [W,stride]
  const float* bias;  // [C]
  size_t W, stride;
};

template <size_t kW, size_t kG, class D>
HWY_INLINE void convolve(D d, const Filter& filter, const float* const* rows, size_t c,
                         hn::Vec<D> (&z)[kG]) {
  if constexpr (kW == 0) {
    DP_EACH_TOKEN
      z[g] = hn::LoadU(d, rows[g] + c);
  } else {
    const size_t W = kW == kAnyWidth ? filter.W : kW;
    DP_EACH_TOKEN
      z[g] = hn::LoadU(d, filter.bias + c);
    DP_UNROLL(8) for (size_t w = 0; w < W; ++w) {
      const auto tap = hn::LoadU(d, filter.taps + w * filter.stride + c);
      DP_EACH_TOKEN
        z[g] = hn::MulAdd(tap, hn::LoadU(d, rows[g + w] + c), z[g]);
    }
  }
}

template <class D>
HWY_INLINE float sum_of_lanes(D d, hn::Vec<D> x) {
  return hn::GetLane(hn::SumOfLanes(d, x));
}

[[maybe_unused]] Filter make_filter(const ShortConvBlock& block) {
  return {block.taps, block.in.bias == nullptr ? block.zeros : block.in.bias, block.in.W,
          block.stride};
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DP_KERNELS_SHORT_CONV_INL_H_
