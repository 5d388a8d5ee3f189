// Products of a float32 or bfloat16 matrix with a few vectors: as fast as the matrix can be read. Several far-apart rows at a time: as many
// streams through memory are faster than one, and keep the additions of a row from waiting for each other. Every
// product sums in the same order, whichever rows or vectors are computed beside it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dot_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/linear_kernels.h"
#include "kernels/weight_formats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Rows row, row + gap, ... of the weight, kR of them, with kM rows of x.
template <WeightFormat kFormat, size_t kR, size_t kM>
HWY_INLINE void dot_tile(const float* HWY_RESTRICT x, const LinearOutput& out, size_t row,
                         size_t gap, float* HWY_RESTRICT y) {
  const WeightLanes d;
  const WeightMatrix& w = out.weight;
  const size_t I = w.columns, lanes = hn::Lanes(d), groups = I / kWeightGroup;
  WeightRow<kFormat> rows[kR];
  WeightVec sums[kR][kM];
  DP_UNROLL_WEIGHTS for (size_t r = 0; r < kR; ++r) {
    rows[r] = WeightRow<kFormat>(w, row + r * gap);
    DP_UNROLL_WEIGHTS for (size_t m = 0; m < kM; ++m) sums[r][m] = hn::Zero(d);
  }
  for (size_t first = 0; first < groups; first += kScaleBlock) {
    const size_t end = std::min(groups, first + kScaleBlock);
    DP_UNROLL_WEIGHTS for (size_t r = 0; r < kR; ++r) rows[r].enter(first, end - first);
    for (size_t g = first; g < end; ++g) {
      DP_UNROLL_WEIGHTS for (size_t r = 0; r < kR; ++r) {
        WeightGroupVecs weights;
        rows[r].load(g, weights);
        DP_UNROLL_WEIGHTS for (size_t v = 0; v < kWeightVectors; ++v)
            DP_UNROLL_WEIGHTS for (size_t m = 0; m < kM; ++m) sums[r][m] = hn::MulAdd(
                weights[v], hn::LoadU(d, x + m * I + g * kWeightGroup + v * lanes), sums[r][m]);
      }
    }
  }
  for (size_t r = 0; r < kR; ++r) {
    for (size_t m = 0; m < kM; ++m) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[r][m]));
      for (size_t i = groups * kWeightGroup; i < I; ++i)
        sum += weight_at(w, row + r * gap, i) * x[m * I + i];
      float& to = y[m * out.stride + row + r * gap];
      to = out.add ? to + sum : sum;
    }
  }
}

// All rows of x, up to four at a time: kR kM sums and what they are made of fit into 16 registers.
template <WeightFormat kFormat, size_t kR>
HWY_INLINE void dot_all(const float* x, size_t M, const LinearOutput& out, size_t row, size_t gap) {
  const size_t I = out.weight.columns;
  float* y = out.y;
  for (; M >= 4 && kR < 4; M -= 4, x += 4 * I, y += 4 * out.stride)
    dot_tile<kFormat, kR, 4>(x, out, row, gap, y);
  switch (M) {
    case 1:
      return dot_tile<kFormat, kR, 1>(x, out, row, gap, y);
    case 2:
      return dot_tile<kFormat, kR, 2>(x, out, row, gap, y);
    case 3:
      return dot_tile<kFormat, kR, 3>(x, out, row, gap, y);
  }
}

// Rows [begin, end) as kR streams through memory.
template <WeightFormat kFormat, size_t kR>
void dot_streams(const float* x, size_t M, const LinearOutput& out, size_t begin, size_t end) {
  const size_t gap = (end - begin) / kR;
  for (size_t row = begin; row < begin + gap; ++row) dot_all<kFormat, kR>(x, M, out, row, gap);
  for (size_t row = begin + kR * gap; row < end; ++row) dot_all<kFormat, 1>(x, M, out, row, 0);
}

template <WeightFormat kFormat>
void dot_format(const float* x, size_t M, const LinearOutput& out, size_t begin, size_t end) {
  (M < 4 ? dot_streams<kFormat, 4> : dot_streams<kFormat, 3>)(x, M, out, begin, end);
}

void dot_rows_target(const float* x, size_t M, const LinearOutput& out, size_t begin, size_t end) {
  switch (out.weight.format) {
    case WeightFormat::kFloat32:
      return dot_format<WeightFormat::kFloat32>(x, M, out, begin, end);
    case WeightFormat::kBFloat16:
      return dot_format<WeightFormat::kBFloat16>(x, M, out, begin, end);
    case WeightFormat::kInt8:
    case WeightFormat::kInt4:
      return;  // dot_quantised.cpp
  }
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(dot_rows_target);
void dot_rows(const float* x, size_t M, const LinearOutput& output, size_t begin, size_t end) {
  HWY_DYNAMIC_DISPATCH(dot_rows_target)(x, M, output, begin, end);
}
}  // namespace dp
#endif
