#include "kernels/cross_entropy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <hwy/contrib/math/math-inl.h>  // once per target

#include "kernels/sizes.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<FloatTag>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Largest {
  float value;
  int64_t index;  // the first of them
  bool ordinary;  // finite, and no NaN in the row
};

// Each lane keeps the first of its largest elements; then the first among the lanes.
Largest find_largest(const float* HWY_RESTRICT x, size_t stride) {
  const FloatTag d;
  const IntTag di;
  const size_t lanes = hn::Lanes(d);
  auto best = hn::LoadU(d, x);
  auto best_at = hn::Iota(di, 0), at = best_at;
  const auto step = hn::Set(di, static_cast<int32_t>(lanes));
  auto nan = hn::IsNaN(best);
  for (size_t i = lanes; i < stride; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    at = hn::Add(at, step);
    const auto larger = hn::Gt(v, best);
    best = hn::IfThenElse(larger, v, best);
    best_at = hn::IfThenElse(hn::RebindMask(di, larger), at, best_at);
    nan = hn::Or(nan, hn::IsNaN(v));
  }
  HWY_ALIGN float values[16];
  HWY_ALIGN int32_t indices[16];
  hn::Store(best, d, values);
  hn::Store(best_at, di, indices);
  Largest largest{values[0], indices[0], hn::AllFalse(d, nan)};
  for (size_t i = 1; i < lanes; ++i) {
    if (values[i] > largest.value || (values[i] == largest.value && indices[i] < largest.index))
      largest = {values[i], indices[i], largest.ordinary};
  }
  largest.ordinary &= std::abs(largest.value) < kInfinity;
  return largest;
}

// The sum of exp(x - largest), whose terms replace x if kStore.
template <bool kStore>
double sum_of_exponentials(float* HWY_RESTRICT x, size_t stride, float largest) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const auto shift = hn::Set(d, largest);
  const auto term = [&](size_t i) HWY_ATTR {
    // From -104 down hn::Exp is 0; far beyond, or at -inf, it would leave its integers.
    const auto below = hn::Max(hn::Sub(hn::LoadU(d, x + i), shift), hn::Set(d, -200.0f));
    const auto e = hn::Exp(d, below);
    if constexpr (kStore) hn::StoreU(e, d, x + i);
    return e;
  };
  // A vocabulary of 100000 in two float32 sums would lose digits where vectors are short.
  constexpr size_t kPiece = 2048;
  double sum = 0;
  for (size_t begin = 0; begin < stride; begin += kPiece) {
    const size_t end = std::min(stride, begin + kPiece);
    auto even = hn::Zero(d), odd = even;
    size_t i = begin;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      even = hn::Add(even, term(i));
      odd = hn::Add(odd, term(i + lanes));
    }
    if (i < end) even = hn::Add(even, term(i));
    sum += hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  }
  return sum;
}

void cross_entropy_rows(const CrossEntropyRows& in, float gradient_scale, size_t begin,
                        size_t end) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d), stride = cross_entropy_stride(in.vocabulary);
  for (size_t row = begin; row < end; ++row) {
    float* HWY_RESTRICT x = in.logits + row * stride;
    std::fill(x + in.vocabulary, x + stride, -kInfinity);
    const bool counted = in.targets[row] != in.ignore_index;
    Largest largest{};
    if (counted || in.predicted) largest = find_largest(x, stride);
    if (in.predicted) in.predicted[row] = largest.index;
    if (!counted || !largest.ordinary) {
      const float value = counted ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
      in.losses[row] = value;
      if (gradient_scale != 0) std::fill(x, x + stride, value);
      continue;
    }
    const double below = double(largest.value) - x[in.targets[row]];
    const double sum = gradient_scale != 0 ? sum_of_exponentials<true>(x, stride, largest.value)
                                           : sum_of_exponentials<false>(x, stride, largest.value);
    in.losses[row] = std::log(sum) + below;
    if (gradient_scale != 0) {
      const auto factor = hn::Set(d, static_cast<float>(gradient_scale / sum));
      for (size_t i = 0; i < stride; i += lanes)
        hn::StoreU(hn::Mul(hn::LoadU(d, x + i), factor), d, x + i);
      x[in.targets[row]] -= gradient_scale;
    }
  }
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(cross_entropy_rows);

void cross_entropy(const CrossEntropyRows& in, float gradient_scale, Executor& executor) {
  constexpr size_t kTaskElements = 32768;
  const size_t rows = std::max<size_t>(1, kTaskElements / cross_entropy_stride(in.vocabulary));
  executor.run(ceil_div(in.rows, rows), [&](size_t task) {
    const size_t begin = task * rows;
    HWY_DYNAMIC_DISPATCH(cross_entropy_rows)
    (in, gradient_scale, begin, std::min(in.rows, begin + rows));
  });
}

}  // namespace dp
#endif
