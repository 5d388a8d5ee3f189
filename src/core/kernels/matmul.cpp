// Vectors run along m. x is transposed once into panels of 16 columns; a tile of the weight's rows times a panel stays
// in registers, and the weight is read where it lies: packing it, as a product of large matrices does, would take a
// quarter of the time when x has 64 rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/matmul.h"
#include "kernels/scratch.h"
#include "kernels/unroll.h"

#ifndef DP_MATMUL_SIZES
#define DP_MATMUL_SIZES
namespace dp {
constexpr size_t kMatmulPanel = 16;  // rows of x
constexpr size_t kMatmulDepth =
    256;                            // of I at a time: so much of a panel fits the first-level cache
constexpr size_t kMatmulRows = 96;  // of the weight per task: they fit the second-level cache
}  // namespace dp
#endif

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<float, kMatmulPanel>;
constexpr size_t kVectors = kMatmulPanel / hn::MaxLanes(Lanes());
// Rows of a tile: 12 sums hide the latency of addition.
constexpr size_t kTile = std::max<size_t>(1, 12 / kVectors);

// sums[r,:] += weight[r,i] panel[i,:] for i < depth, the weight's rows I apart.
template <size_t kR>
void add_products(const float* HWY_RESTRICT panel, const float* HWY_RESTRICT weight, size_t I,
                  size_t depth, float* HWY_RESTRICT sums) {
  const Lanes d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<Lanes> sum[kR][kVectors];
  DP_FOR (r, kR)
    DP_FOR (v, kVectors) sum[r][v] = hn::LoadU(d, sums + r * kMatmulPanel + v * lanes);
  for (size_t i = 0; i < depth; ++i) {
    hn::Vec<Lanes> x[kVectors];
    DP_FOR (v, kVectors) x[v] = hn::LoadU(d, panel + i * kMatmulPanel + v * lanes);
    DP_FOR (r, kR) {
      const auto w = hn::Set(d, weight[r * I + i]);
      DP_FOR (v, kVectors) sum[r][v] = hn::MulAdd(w, x[v], sum[r][v]);
    }
  }
  DP_FOR (r, kR)
    DP_FOR (v, kVectors) hn::StoreU(sum[r][v], d, sums + r * kMatmulPanel + v * lanes);
}

// Rows [begin, end) of the weight with all panels; sums [panels][end - begin][16] start as zeros.
void matmul_rows(const float* panels, size_t num_panels, const float* weight, size_t I,
                 size_t begin, size_t end, float* sums) {
  const size_t count = end - begin;
  for (size_t i = 0; i < I; i += kMatmulDepth) {
    const size_t depth = std::min(kMatmulDepth, I - i);
    for (size_t p = 0; p < num_panels; ++p) {
      const float* panel = panels + (p * I + i) * kMatmulPanel;
      size_t o = 0;
      for (; o + kTile <= count; o += kTile)
        add_products<kTile>(panel, weight + (begin + o) * I + i, I, depth,
                            sums + (p * count + o) * kMatmulPanel);
      for (; o < count; ++o)
        add_products<1>(panel, weight + (begin + o) * I + i, I, depth,
                        sums + (p * count + o) * kMatmulPanel);
    }
  }
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(matmul_rows);

void matmul(const float* x, const float* weight, size_t M, size_t I, size_t O, float* y,
            Executor& executor) {
  constexpr size_t kPanel = kMatmulPanel;
  const size_t num_panels = ceil_div(M, kPanel);
  const Scratch scratch(num_panels * kPanel * I);
  float* const panels = scratch.data();
  for (size_t p = 0; p < num_panels; ++p)
    for (size_t j = 0; j < kPanel; ++j)
      for (size_t m = p * kPanel + j, i = 0; i < I; ++i)
        panels[(p * I + i) * kPanel + j] = m < M ? x[m * I + i] : 0;
  executor.run(ceil_div(O, kMatmulRows), [&](size_t task) {
    const size_t begin = task * kMatmulRows, end = std::min(O, begin + kMatmulRows),
                 count = end - begin;
    const Scratch memory(num_panels * count * kPanel);
    float* const sums = memory.data();
    std::fill_n(sums, num_panels * count * kPanel, 0.f);
    HWY_DYNAMIC_DISPATCH(matmul_rows)(panels, num_panels, weight, I, begin, end, sums);
    for (size_t m = 0; m < M; ++m)
      for (size_t o = 0; o < count; ++o)
        y[m * O + begin + o] = sums[(m / kPanel * count + o) * kPanel + m % kPanel];
  });
}

}  // namespace dp
#endif
