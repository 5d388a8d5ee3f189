// Groups of tokens share the loads of taps and of inputs; a head's channels are computed together, and
// wait in the first-level cache until its norm is known.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/short_conv_forward.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <cmath>
#include <vector>

#include "kernels/activations-inl.h"
#include "kernels/short_conv-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {

// y = silu(z) from channel c on, in steps of whole vectors. Returns where it stopped; adds to sum(y^2).
template <size_t kW, size_t kG, class D>
HWY_INLINE size_t activate(D d, const Filter& filter, const float* const* rows, size_t c,
                           size_t end, float* y, size_t stride, float (&squares)[kG]) {
  hn::Vec<D> z[kG], s[kG], sums[kG];
  DP_EACH_TOKEN
    sums[g] = hn::Zero(d);
  for (; c + hn::Lanes(d) <= end; c += hn::Lanes(d)) {
    convolve<kW>(d, filter, rows, c, z);
    silu(d, z, s);
    DP_EACH_TOKEN
      hn::StoreU(s[g], d, y + g * stride + c);
    DP_EACH_TOKEN
      sums[g] = hn::MulAdd(s[g], s[g], sums[g]);
  }
  DP_EACH_TOKEN
    squares[g] += sum_of_lanes(d, sums[g]);
  return c;
}

template <class D>
HWY_INLINE size_t multiply(D d, float factor, size_t c, size_t end, float* y) {
  for (; c + hn::Lanes(d) <= end; c += hn::Lanes(d))
    hn::StoreU(hn::Mul(hn::Set(d, factor), hn::LoadU(d, y + c)), d, y + c);
  return c;
}

// Squares of more than 1e19 overflow in float32.
HWY_NOINLINE void normalise_large(float* y, size_t n) {
  double squares = kEpsilon;
  for (size_t c = 0; c < n; ++c) squares += double{y[c]} * y[c];
  for (size_t c = 0; c < n; ++c) y[c] = static_cast<float>(y[c] / std::sqrt(squares));
}

// `y` is the first token's row of C floats.
template <size_t kW, size_t kG>
void forward_group(const ShortConvInputs& in, const Filter& filter, const float* const* rows,
                   float* y) {
  const Vectors d;
  const Singles one;
  const size_t step = in.head_size == 0 ? in.C : in.head_size;
  for (size_t begin = 0; begin < in.C; begin += step) {
    const size_t end = begin + step;
    float squares[kG] = {};
    const size_t tail = activate<kW, kG>(d, filter, rows, begin, end, y, in.C, squares);
    if (tail < end) activate<kW, kG>(one, filter, rows, tail, end, y, in.C, squares);
    if (in.head_size == 0) continue;
    for (size_t g = 0; g < kG; ++g) {
      float* row = y + g * in.C;
      if (std::isfinite(squares[g])) {
        const float factor = 1 / std::sqrt(squares[g] + kEpsilon);
        multiply(one, factor, multiply(d, factor, begin, end, row), end, row);
      } else {
        normalise_large(row + begin, in.head_size);
      }
    }
  }
}

template <size_t kW>
void forward_block(const ShortConvBlock& block, float* y) {
  const ShortConvInputs& in = block.in;
  const Filter filter = make_filter(block);
  std::vector<const float*> rows(in.W + kGroup);
  for_each_part(block, [&](const SequencePart& part) {
    for (size_t t = part.begin, count; t < part.end; t += count) {
      count = t + kGroup <= part.end ? kGroup : 1;
      part.inputs(t, count, rows.data());
      (count == 1 ? forward_group<kW, 1> : forward_group<kW, kGroup>)(in, filter, rows.data(),
                                                                      part.row(y, t));
    }
  });
}

void short_conv_transpose_weight_target(const ShortConvInputs& in, size_t stride, float* taps) {
  const Vectors d;
  size_t c = 0;
  if (in.W == 4) {
    for (; c + hn::Lanes(d) <= in.C; c += hn::Lanes(d)) {
      hn::Vec<Vectors> tap[4];
      hn::LoadInterleaved4(d, in.weight + c * 4, tap[0], tap[1], tap[2], tap[3]);
      for (size_t w = 0; w < 4; ++w) hn::StoreU(tap[w], d, taps + w * stride + c);
    }
  }
  for (; c < in.C; ++c)
    for (size_t w = 0; w < in.W; ++w) taps[w * stride + c] = in.weight[c * in.W + w];
}

void short_conv_forward_target(const ShortConvBlock& block, float* y) {
  switch (block.in.W) {
    case 0:
      return forward_block<0>(block, y);
    case 4:
      return forward_block<4>(block, y);
    default:
      return forward_block<kAnyWidth>(block, y);
  }
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(short_conv_transpose_weight_target);
HWY_EXPORT(short_conv_forward_target);

void short_conv_transpose_weight(const ShortConvInputs& in, size_t stride, float* taps) {
  HWY_DYNAMIC_DISPATCH(short_conv_transpose_weight_target)(in, stride, taps);
}
void short_conv_forward_block(const ShortConvBlock& block, float* y) {
  HWY_DYNAMIC_DISPATCH(short_conv_forward_target)(block, y);
}
}  // namespace dp
#endif
