// Two loops over a head of a group of tokens: the first finds the activations anew and their sums over
// the head, the second the gradient before the activation, and at once what it adds to those of inputs
// and taps.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/short_conv_backward.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/activations-inl.h"
#include "kernels/scratch.h"
#include "kernels/short_conv-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {

constexpr size_t kSpan = 128;  // channels taken together without heads

// What is known of a head, or span, of a group between the two loops of the backward pass. With
// y = s / r, r^2 = |s|^2 + epsilon:  ds = (dy - s along) / r, along = s . dy / r^2;  dz = ds slope.
template <size_t kG>
struct Activations {
  float *s, *slope;  // [kG,stride]: silu(z) and its derivative
  size_t stride;
  float along[kG], inverse_r[kG];
};

template <size_t kW, size_t kG, class D>
HWY_INLINE size_t activate_with_slope(D d, const Filter& filter, const float* const* rows,
                                      const float* dy, size_t C, size_t c, size_t end,
                                      const Activations<kG>& a, float (&squares)[kG],
                                      float (&products)[kG]) {
  hn::Vec<D> z[kG], s[kG], slope[kG], ss[kG], sdy[kG];
  DP_EACH_TOKEN
    ss[g] = sdy[g] = hn::Zero(d);
  for (; c + hn::Lanes(d) <= end; c += hn::Lanes(d)) {
    convolve<kW>(d, filter, rows, c, z);
    silu_and_derivative(d, z, s, slope);
    DP_EACH_TOKEN
      hn::StoreU(s[g], d, a.s + g * a.stride + c);
    DP_EACH_TOKEN
      hn::StoreU(slope[g], d, a.slope + g * a.stride + c);
    DP_EACH_TOKEN
      ss[g] = hn::MulAdd(s[g], s[g], ss[g]);
    DP_EACH_TOKEN
      sdy[g] = hn::MulAdd(s[g], hn::LoadU(d, dy + g * C + c), sdy[g]);
  }
  DP_EACH_TOKEN
    squares[g] += sum_of_lanes(d, ss[g]);
  DP_EACH_TOKEN
    products[g] += sum_of_lanes(d, sdy[g]);
  return c;
}

// Where a sum overflows in float32: in double, and s scaled so that s along stays in range.
HWY_NOINLINE void norm_large(const float* dy, size_t n, float* s, float* along, float* inverse_r) {
  double squares = kEpsilon, product = 0, largest = 0;
  for (size_t c = 0; c < n; ++c) {
    squares += double{s[c]} * s[c];
    product += double{s[c]} * dy[c];
    largest = std::max(largest, std::abs(double{s[c]}));
  }
  for (size_t c = 0; c < n; ++c) s[c] = static_cast<float>(s[c] / largest);
  *along = static_cast<float>(product / squares * largest);
  *inverse_r = static_cast<float>(1 / std::sqrt(squares));
}

template <size_t kW, size_t kG>
void activate_head(const Filter& filter, const float* const* rows, const float* dy, size_t C,
                   size_t begin, size_t end, bool norm, Activations<kG>& a) {
  const Vectors d;
  const Singles one;
  float squares[kG] = {}, products[kG] = {};
  const size_t tail =
      activate_with_slope<kW>(d, filter, rows, dy, C, begin, end, a, squares, products);
  if (tail < end)
    activate_with_slope<kW>(one, filter, rows, dy, C, tail, end, a, squares, products);
  for (size_t g = 0; g < kG; ++g) {
    if (!norm) {
      a.along[g] = 0;
      a.inverse_r[g] = 1;
    } else if (std::isfinite(squares[g]) && std::isfinite(products[g])) {
      a.along[g] = products[g] / (squares[g] + kEpsilon);
      a.inverse_r[g] = 1 / std::sqrt(squares[g] + kEpsilon);
    } else {
      norm_large(dy + g * C + begin, end - begin, a.s + g * a.stride + begin, &a.along[g],
                 &a.inverse_r[g]);
    }
  }
}

template <size_t kG, class D>
HWY_INLINE hn::Vec<D> pre_activation_gradient(D d, const Activations<kG>& a, const float* dy,
                                              size_t g, size_t c) {
  const size_t at = g * a.stride + c;
  const auto ds =
      hn::NegMulAdd(hn::Set(d, a.along[g]), hn::LoadU(d, a.s + at), hn::LoadU(d, dy + c));
  return hn::Mul(ds, hn::Mul(hn::Set(d, a.inverse_r[g]), hn::LoadU(d, a.slope + at)));
}

// From a group's dz to the gradients of what it convolved. In this loop dz_g and input_g count from the
// group's first token and input, so that token g reads inputs g .. g+W-1.
struct Convolved {
  const float* const* inputs;  // [W-1+kG]
  float* const* d_inputs;      // [kG]: complete with this group are inputs 0 .. kG-1
  const float* dy;             // [kG,C], or null when the group lies beyond the end: dz = 0
  float* earlier;              // [W-1,stride]: dz_{-(W-1)} .. dz_{-1}; leaves the next group's
  float* partial;              // [W+1,stride], or null: gradients of taps and bias to add to
};

//   d_input_g = sum_w taps[w] dz_{g-w}
//   partial[w] += sum_g dz_g input_{g+w},   partial[W] += sum_g dz_g
template <size_t kW, size_t kG, class D>
HWY_INLINE size_t use_gradient(D d, const Filter& filter, const Activations<kG>& a,
                               const Convolved& v, size_t C, size_t c, size_t end) {
  using Vec = hn::Vec<D>;
  constexpr size_t kBefore = kW == kAnyWidth ? 1 : kW - 1;
  const size_t W = kW == kAnyWidth ? filter.W : kW, stride = filter.stride;
  for (; c + hn::Lanes(d) <= end; c += hn::Lanes(d)) {
    Vec dz[kG];
    DP_EACH_TOKEN
      dz[g] = v.dy == nullptr ? hn::Zero(d) : pre_activation_gradient(d, a, v.dy + g * C, g, c);
    [[maybe_unused]] Vec before[kBefore + 1];
    if constexpr (kW != kAnyWidth)
      DP_UNROLL(8)
      for (size_t w = 0; w + 1 < W; ++w) before[w] = hn::LoadU(d, v.earlier + w * stride + c);
    // dz_i for -(W-1) <= i < kG, given i + W - 1
    const auto dz_at = [&](size_t i) HWY_ATTR {
      if (i + 1 >= W) return dz[i + 1 - W];
      if constexpr (kW != kAnyWidth) return before[i];
      return hn::LoadU(d, v.earlier + i * stride + c);
    };
    Vec d_inputs[kG];
    DP_EACH_TOKEN
      d_inputs[g] = hn::Zero(d);
    DP_UNROLL(8) for (size_t w = 0; w < W; ++w) {
      const Vec tap = hn::LoadU(d, filter.taps + w * stride + c);
      DP_EACH_TOKEN
        d_inputs[g] = hn::MulAdd(tap, dz_at(g + W - 1 - w), d_inputs[g]);
    }
    DP_EACH_TOKEN
      hn::StoreU(d_inputs[g], d, v.d_inputs[g] + c);
    DP_UNROLL(8)
    for (size_t w = 0; w + 1 < W; ++w) hn::StoreU(dz_at(w + kG), d, v.earlier + w * stride + c);
    if (v.partial == nullptr) continue;
    DP_UNROLL(8) for (size_t w = 0; w < W; ++w) {
      Vec sum = hn::LoadU(d, v.partial + w * stride + c);
      DP_EACH_TOKEN
        sum = hn::MulAdd(dz[g], hn::LoadU(d, v.inputs[g + w] + c), sum);
      hn::StoreU(sum, d, v.partial + w * stride + c);
    }
    Vec sum = hn::LoadU(d, v.partial + W * stride + c);
    DP_EACH_TOKEN
      sum = hn::Add(sum, dz[g]);
    hn::StoreU(sum, d, v.partial + W * stride + c);
  }
  return c;
}

// dx = dz without a convolution.
template <size_t kG, class D>
HWY_INLINE size_t store_gradient(D d, const Activations<kG>& a, const float* dy, size_t C, size_t c,
                                 size_t end, float* dx) {
  for (; c + hn::Lanes(d) <= end; c += hn::Lanes(d))
    DP_EACH_TOKEN
      hn::StoreU(pre_activation_gradient(d, a, dy + g * C, g, c), d, dx + g * C + c);
  return c;
}

// Filter, working memory and loop over heads of one block's backward pass.
class Backward {
 public:
  Backward(const ShortConvBlock& block, const Filter& filter)
      : in_(block.in), filter_(filter), scratch_([&](ScratchLayout& layout) {
          for (float** rows : {&s_, &slope_}) *rows = layout.take(kGroup * filter.stride);
        }) {}

  template <size_t kW, size_t kG>
  void convolved(const Convolved& v) const {
    for_each_head<kG>([&](size_t begin, size_t end, Activations<kG>& a) HWY_ATTR {
      if (v.dy != nullptr)
        activate_head<kW>(filter_, v.inputs, v.dy, in_.C, begin, end, in_.head_size > 0, a);
      const size_t tail = use_gradient<kW>(Vectors(), filter_, a, v, in_.C, begin, end);
      if (tail < end) use_gradient<kW>(Singles(), filter_, a, v, in_.C, tail, end);
    });
  }

  template <size_t kG>
  void plain(const float* const* rows, const float* dy, float* dx) const {
    for_each_head<kG>([&](size_t begin, size_t end, Activations<kG>& a) HWY_ATTR {
      activate_head<0>(filter_, rows, dy, in_.C, begin, end, in_.head_size > 0, a);
      const size_t tail = store_gradient(Vectors(), a, dy, in_.C, begin, end, dx);
      if (tail < end) store_gradient(Singles(), a, dy, in_.C, tail, end, dx);
    });
  }

 private:
  template <size_t kG, class Body>
  void for_each_head(const Body& body) const {
    const size_t step = in_.head_size == 0 ? kSpan : in_.head_size;
    Activations<kG> a{s_, slope_, filter_.stride, {}, {}};
    for (size_t begin = 0; begin < in_.C; begin += step)
      body(begin, std::min(in_.C, begin + step), a);
  }

  const ShortConvInputs& in_;
  const Filter& filter_;
  float *s_, *slope_;
  const Scratch scratch_;  // last: its layout sets what comes before
};

template <size_t kW>
void backward_block(const ShortConvBlock& block, const ShortConvGradients& gradients,
                    float* partial) {
  const ShortConvInputs& in = block.in;
  const Filter filter = make_filter(block);
  const Backward backward(block, filter);
  const size_t W = in.W;
  float *earlier, *discarded;
  const Scratch scratch([&](ScratchLayout& layout) {
    earlier = layout.take((W - 1) * block.stride);
    discarded = layout.take(block.stride);
  });
  std::vector<const float*> inputs(W + kGroup);
  float* d_inputs[kGroup];
  if (partial != nullptr) std::memset(partial, 0, (W + 1) * block.stride * sizeof(float));

  for_each_part(block, [&](const SequencePart& part) {
    std::memset(earlier, 0, (W - 1) * block.stride * sizeof(float));
    // dx of the part's last token needs dz of W-1 more, which may belong to the next block. Its first
    // tokens read history, or inputs of the block before, which computes the gradients of those.
    const size_t last = part.end + W - 1;
    for (size_t t = part.begin, count; t < last; t += count) {
      const bool own = t < part.end, exists = t < part.T;
      count = t + kGroup <= (own ? part.end : exists ? std::min(last, part.T) : last) ? kGroup : 1;
      if (exists) part.inputs(t, count, inputs.data());
      for (size_t g = 0; g < count; ++g) {
        const bool other_block = part.begin > 0 && t + g + 1 < part.begin + W;
        d_inputs[g] =
            other_block ? discarded : part.input_gradient(gradients, t + g + 1, discarded);
      }
      const Convolved v{inputs.data(), d_inputs, exists ? part.row(gradients.dy, t) : nullptr,
                        earlier, own ? partial : nullptr};
      if (count == 1)
        backward.convolved<kW, 1>(v);
      else
        backward.convolved<kW, kGroup>(v);
    }
  });
}

void backward_block_plain(const ShortConvBlock& block, const ShortConvGradients& gradients) {
  const Filter filter = make_filter(block);
  const Backward backward(block, filter);
  const size_t C = block.in.C;
  for (size_t t = block.begin, count; t < block.end; t += count) {
    count = t + kGroup <= block.end ? kGroup : 1;
    const float* rows[kGroup];
    for (size_t g = 0; g < count; ++g) rows[g] = block.in.x + (t + g) * C;
    if (count == 1)
      backward.plain<1>(rows, gradients.dy + t * C, gradients.dx + t * C);
    else
      backward.plain<kGroup>(rows, gradients.dy + t * C, gradients.dx + t * C);
  }
}

void short_conv_backward_target(const ShortConvBlock& block, const ShortConvGradients& gradients,
                                float* partial) {
  switch (block.in.W) {
    case 0:
      return backward_block_plain(block, gradients);
    case 4:
      return backward_block<4>(block, gradients, partial);
    default:
      return backward_block<kAnyWidth>(block, gradients, partial);
  }
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(short_conv_backward_target);

void short_conv_backward_block(const ShortConvBlock& block, const ShortConvGradients& gradients,
                               float* partial) {
  HWY_DYNAMIC_DISPATCH(short_conv_backward_target)(block, gradients, partial);
}
}  // namespace dp
#endif
