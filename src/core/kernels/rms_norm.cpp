// Each pass over a row finds it in the first-level cache after the first, so that memory is read once
// and written once.
#include "kernels/rms_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/activations-inl.h"
#include "kernels/scratch.h"
#include "kernels/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kLargest = std::numeric_limits<float>::max();

// Rows with elements near 1e19 and above: squares that overflow float32 do not overflow double.
HWY_NOINLINE double sum_of_squares_in_double(const float* x, size_t D) {
  double sum = 0;
  for (size_t i = 0; i < D; ++i) sum += double(x[i]) * x[i];
  return sum;
}

HWY_NOINLINE double dot_in_double(const float* a, const float* b, const float* c, size_t D) {
  double sum = 0;
  for (size_t i = 0; i < D; ++i) sum += double(a[i]) * b[i] * c[i];
  return sum;
}

HWY_INLINE float inverse_root_mean_square(float sum_of_squares, const float* x, size_t D,
                                          double eps) {
  double sum = sum_of_squares;
  if (HWY_UNLIKELY(!(sum_of_squares <= kLargest))) sum = sum_of_squares_in_double(x, D);
  return static_cast<float>(1 / std::sqrt(sum * (1.0 / static_cast<double>(D)) + eps));
}

// Rows are taken in groups, every pass over a whole group at a time: what follows from a row's sums waits
// for their last addition, which the other rows' work hides. A group fits the first-level cache.
constexpr size_t kMaxGroupRows = 16, kGroupElements = 1024;

size_t rows_per_group(size_t D) { return std::clamp<size_t>(kGroupElements / D, 1, kMaxGroupRows); }

template <bool kGated>
void forward_rows(const RmsNormInputs& in, size_t begin, size_t end, float* out) {
  const size_t D = in.D, group = rows_per_group(D);
  const float* HWY_RESTRICT weight = in.weight;
  float r[kMaxGroupRows];
  for (size_t first = begin; first < end; first += group) {
    const size_t rows = std::min(group, end - first);
    for (size_t row = 0; row < rows; ++row) {
      const float* HWY_RESTRICT x = in.x + (first + row) * D;
      float sums[1];
      sum_vectors<4>(D, sums, [&](auto d, size_t i, auto& sum) HWY_ATTR {
        const auto xv = hn::LoadU(d, x + i);
        sum[0] = hn::MulAdd(xv, xv, sum[0]);
      });
      r[row] = inverse_root_mean_square(sums[0], x, D, in.eps);
    }
    for (size_t row = 0; row < rows; ++row) {
      const size_t at = (first + row) * D;
      const float* HWY_RESTRICT x = in.x + at;
      const float* HWY_RESTRICT gate = kGated ? in.gate + at : nullptr;
      float* HWY_RESTRICT y = out + at;
      for_vectors(D, [&](auto d, size_t i) HWY_ATTR {
        const auto n = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, r[row]));
        auto yv = hn::Mul(n, hn::LoadU(d, weight + i));
        if constexpr (kGated) yv = hn::Mul(yv, silu(d, hn::LoadU(d, gate + i)));
        hn::StoreU(yv, d, y + i);
      });
    }
  }
}

struct RowFactors {
  float r, mean;  // mean(t weight n)
};

// The first pass over a row. With a gate it leaves t in dx and dy silu'(gate) in dgate.
template <bool kGated>
HWY_INLINE RowFactors row_factors(const RmsNormInputs& in, const RmsNormGradients& gradients,
                                  size_t row) {
  const size_t D = in.D;
  const float* HWY_RESTRICT weight = in.weight;
  const float* HWY_RESTRICT x = in.x + row * D;
  const float* HWY_RESTRICT dy = gradients.dy + row * D;
  const float* HWY_RESTRICT gate = kGated ? in.gate + row * D : nullptr;
  float* HWY_RESTRICT dx = gradients.dx + row * D;
  float* HWY_RESTRICT dgate = kGated ? gradients.dgate + row * D : nullptr;
  float sums[2];  // of x^2 and of t weight x
  sum_vectors<kGated ? 1 : 4>(D, sums, [&](auto d, size_t i, auto& sum) HWY_ATTR {
    const auto xv = hn::LoadU(d, x + i);
    auto t = hn::LoadU(d, dy + i);
    if constexpr (kGated) {
      hn::Vec<decltype(d)> s, ds;
      silu_and_derivative(d, hn::LoadU(d, gate + i), s, ds);
      hn::StoreU(hn::Mul(t, ds), d, dgate + i);
      t = hn::Mul(t, s);
      hn::StoreU(t, d, dx + i);
    }
    sum[0] = hn::MulAdd(xv, xv, sum[0]);
    sum[1] = hn::MulAdd(hn::Mul(t, hn::LoadU(d, weight + i)), xv, sum[1]);
  });
  const float r = inverse_root_mean_square(sums[0], x, D, in.eps);
  double dot = sums[1];
  if (HWY_UNLIKELY(!(std::abs(sums[1]) <= kLargest)))
    dot = dot_in_double(kGated ? dx : dy, weight, x, D);
  return {r, static_cast<float>(dot * r * (1.0 / static_cast<double>(D)))};
}

// With n = x r and t = dy [silu(gate)], the gradient that reaches n weight:
//   dweight = sum over rows of t n;  dx = r (t weight - n mean(t weight n));
//   dgate = dy n weight silu'(gate).
// Adds the rows' dweight to `dweight`.
template <bool kGated>
void backward_rows(const RmsNormInputs& in, const RmsNormGradients& gradients, size_t begin,
                   size_t end, float* HWY_RESTRICT dweight) {
  const size_t D = in.D, group = rows_per_group(D);
  const float* HWY_RESTRICT weight = in.weight;
  RowFactors factors[kMaxGroupRows];
  for (size_t first = begin; first < end; first += group) {
    const size_t rows = std::min(group, end - first);
    for (size_t row = 0; row < rows; ++row)
      factors[row] = row_factors<kGated>(in, gradients, first + row);
    for (size_t row = 0; row < rows; ++row) {
      const auto [r, mean] = factors[row];
      const size_t at = (first + row) * D;
      const float* HWY_RESTRICT x = in.x + at;
      float* dx = gradients.dx + at;
      float* HWY_RESTRICT dgate = kGated ? gradients.dgate + at : nullptr;
      const float* t = kGated ? dx : gradients.dy + at;
      for_vectors(D, [&, r = r, mean = mean](auto d, size_t i) HWY_ATTR {
        const auto wv = hn::LoadU(d, weight + i), tv = hn::LoadU(d, t + i), rv = hn::Set(d, r);
        const auto n = hn::Mul(hn::LoadU(d, x + i), rv);
        hn::StoreU(hn::MulAdd(tv, n, hn::LoadU(d, dweight + i)), d, dweight + i);
        if constexpr (kGated)
          hn::StoreU(hn::Mul(hn::LoadU(d, dgate + i), hn::Mul(n, wv)), d, dgate + i);
        const auto along = hn::Mul(n, hn::Set(d, mean));
        hn::StoreU(hn::Mul(rv, hn::MulSub(tv, wv, along)), d, dx + i);
      });
    }
  }
}

void forward_rows_target(const RmsNormInputs& in, size_t begin, size_t end, float* y) {
  (in.gate ? forward_rows<true> : forward_rows<false>)(in, begin, end, y);
}

void backward_rows_target(const RmsNormInputs& in, const RmsNormGradients& gradients, size_t begin,
                          size_t end, float* dweight) {
  (in.gate ? backward_rows<true> : backward_rows<false>)(in, gradients, begin, end, dweight);
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
namespace {

HWY_EXPORT(forward_rows_target);
HWY_EXPORT(backward_rows_target);

// Enough work per task that handing it out costs nothing.
constexpr size_t kTaskElements = 32768;

}  // namespace

void rms_norm_forward(const RmsNormInputs& in, float* y, Executor& executor) {
  const size_t rows = std::max<size_t>(1, kTaskElements / in.D);
  executor.run(ceil_div(in.rows, rows), [&](size_t task) {
    const size_t begin = task * rows;
    HWY_DYNAMIC_DISPATCH(forward_rows_target)(in, begin, std::min(in.rows, begin + rows), y);
  });
}

void rms_norm_backward(const RmsNormInputs& in, const RmsNormGradients& gradients,
                       Executor& executor) {
  // dweight is summed per task, then over tasks in their order. The split depends on the shape alone,
  // so the sums do not depend on the threads.
  constexpr size_t kMaxTasks = 256;
  const size_t rows = std::max({size_t{32}, kTaskElements / in.D, ceil_div(in.rows, kMaxTasks)});
  const size_t tasks = ceil_div(in.rows, rows), stride = round_up(in.D, kLineFloats);
  const Scratch scratch(tasks * stride);
  float* const partial = scratch.data();
  executor.run(tasks, [&](size_t task) {
    const size_t begin = task * rows;
    float* dweight = partial + task * stride;
    std::fill(dweight, dweight + in.D, 0.0f);
    HWY_DYNAMIC_DISPATCH(backward_rows_target)
    (in, gradients, begin, std::min(in.rows, begin + rows), dweight);
  });
  std::vector<double> sum(in.D, 0.0);
  for (size_t task = 0; task < tasks; ++task)
    for (size_t i = 0; i < in.D; ++i) sum[i] += partial[task * stride + i];
  std::copy(sum.begin(), sum.end(), gradients.dweight);
}

}  // namespace dp
#endif
