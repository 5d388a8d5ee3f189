// Products of a matrix with many vectors. Vectors of the processor run along the rows of x, which lie side by side in
// panels; each weight, widened to float32, is multiplied with two vectors of them. So weights need no transposition,
// and widening them costs one pass for all rows of x.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panel_product.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/linear_kernels.h"
#include "kernels/weight_formats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kMost = hn::MaxLanes(WeightLanes());
constexpr size_t kPanelRows = 2 * kMost;
static_assert(kPanelRows <= kWidestPanel);
// Sums of a tile: 24 of 32 registers, or 12 of 16.
constexpr bool kManyRegisters = HWY_ARCH_X86 ? HWY_TARGET <= HWY_AVX3 : HWY_TARGET != HWY_SCALAR;
constexpr size_t kTile = kManyRegisters ? 12 : 6;
// Rows of widened weights are not a multiple of a page apart: they would share a few sets of the cache.
constexpr size_t kWideStride = kPanelDepth + 16;
// float32 weights are multiplied where they lie with so few panels; with more, what their copy costs comes back.
constexpr size_t kPanelsInPlace = 4;

// out[c * to + r] = in[r * from + c] for r < 4 and c < n.
HWY_INLINE void transpose_4(const float* HWY_RESTRICT in, size_t from, size_t n,
                            float* HWY_RESTRICT out, size_t to) {
  size_t c = 0;
  if constexpr (kMost >= 4) {
    const WeightLanes d;
    const hn::CappedTag<float, 4> quarter;
    alignas(64) float block[4 * kMost];
    for (; c + kMost <= n; c += kMost) {
      hn::StoreInterleaved4(hn::LoadU(d, in + c), hn::LoadU(d, in + from + c),
                            hn::LoadU(d, in + 2 * from + c), hn::LoadU(d, in + 3 * from + c), d,
                            block);
      for (size_t j = 0; j < kMost; ++j)
        hn::StoreU(hn::Load(quarter, block + 4 * j), quarter, out + (c + j) * to);
    }
  }
  for (; c < n; ++c)
    for (size_t r = 0; r < 4; ++r) out[c * to + r] = in[r * from + c];
}

void pack_panel_target(const float* x, size_t M, size_t I, size_t p, float* panel) {
  size_t r = 0;
  const size_t first = p * kPanelRows, rows = std::min(kPanelRows, M - first);
  if constexpr (kPanelRows % 4 == 0)
    for (; r + 4 <= rows; r += 4) transpose_4(x + (first + r) * I, I, I, panel + r, kPanelRows);
  for (; r < rows; ++r)
    for (size_t i = 0; i < I; ++i) panel[i * kPanelRows + r] = x[(first + r) * I + i];
  for (; r < kPanelRows; ++r)
    for (size_t i = 0; i < I; ++i) panel[i * kPanelRows + r] = 0;
}

// Weights i .. i + depth - 1 of a row; i is a multiple of the groups' size.
template <WeightFormat kFormat>
HWY_INLINE void widen(const WeightMatrix& w, size_t row, size_t i, size_t depth,
                      float* HWY_RESTRICT out) {
  const WeightLanes d;
  WeightRow<kFormat> weights(w, row);
  const size_t lanes = hn::Lanes(d), whole = depth / kWeightGroup * kWeightGroup;
  const size_t first = i / kWeightGroup, end = first + depth / kWeightGroup;
  static_assert(kPanelDepth <= kScaleBlock * kWeightGroup);
  weights.enter(first, end - first);
  for (size_t g = first; g < end; ++g) {
    WeightGroupVecs vectors;
    weights.load(g, vectors);
    DP_UNROLL_WEIGHTS for (size_t v = 0; v < kWeightVectors; ++v)
        hn::StoreU(vectors[v], d, out + (g - first) * kWeightGroup + v * lanes);
  }
  for (size_t j = whole; j < depth; ++j) out[j] = weight_at(w, row, i + j);
}

template <WeightFormat kFormat>
void widen_rows(const WeightMatrix& w, size_t begin, size_t end, size_t i, size_t depth,
                float* out) {
  for (size_t row = begin; row < end; ++row)
    widen<kFormat>(w, row, i, depth, out + (row - begin) * kWideStride);
}

void widen_block(const WeightMatrix& w, size_t begin, size_t end, size_t i, size_t depth,
                 float* out) {
  switch (w.format) {
    case WeightFormat::kFloat32:
      return widen_rows<WeightFormat::kFloat32>(w, begin, end, i, depth, out);
    case WeightFormat::kBFloat16:
      return widen_rows<WeightFormat::kBFloat16>(w, begin, end, i, depth, out);
    case WeightFormat::kInt8:
      return widen_rows<WeightFormat::kInt8>(w, begin, end, i, depth, out);
    case WeightFormat::kInt4:
      return widen_rows<WeightFormat::kInt4>(w, begin, end, i, depth, out);
  }
}

void widen_row_target(const WeightMatrix& w, size_t row, float* out) {
  for (size_t i = 0; i < w.columns; i += kPanelDepth)
    widen_block(w, row, row + 1, i, std::min(kPanelDepth, w.columns - i), out + i);
}

/// Rows of float32 weights, `stride` floats apart.
struct WeightRows {
  const float* data;
  size_t stride;
};

// sums[r,:] (+)= sum over i < depth of weights[r,i] panel[i,:], for kR rows of weights and the first kV vectors of the
// panel.
template <size_t kR, size_t kV>
HWY_NOINLINE void multiply_tile(const float* HWY_RESTRICT panel, WeightRows rows, size_t depth,
                                bool first, float* HWY_RESTRICT sums, ComingMemory& coming) {
  const float* HWY_RESTRICT weights = rows.data;
  const size_t stride = rows.stride;
  const WeightLanes d;
  const size_t lanes = hn::Lanes(d);
  WeightVec sum[kR][kV];
  DP_UNROLL_WEIGHTS for (size_t r = 0; r < kR; ++r)
      DP_UNROLL_WEIGHTS for (size_t v = 0; v < kV; ++v) sum[r][v] =
          first ? hn::Zero(d) : hn::LoadU(d, sums + r * kPanelRows + v * lanes);
  const auto step = [&](size_t i) HWY_ATTR {
    WeightVec x[kV];
    DP_UNROLL_WEIGHTS for (size_t v = 0; v < kV; ++v) x[v] =
        hn::LoadU(d, panel + i * kPanelRows + v * lanes);
    DP_UNROLL_WEIGHTS for (size_t r = 0; r < kR; ++r) {
      const WeightVec weight = hn::Set(d, weights[r * stride + i]);
      DP_UNROLL_WEIGHTS for (size_t v = 0; v < kV; ++v) sum[r][v] =
          hn::MulAdd(weight, x[v], sum[r][v]);
    }
  };
  const size_t lines = std::min(depth, coming.lines());
  const char* line = coming.next();
  coming.advance(lines);
  size_t i = 0;
  for (; i < lines; ++i, line += ComingMemory::kLine) {
    __builtin_prefetch(line, 0, 2);
    step(i);
  }
  for (; i < depth; ++i) step(i);
  DP_UNROLL_WEIGHTS for (size_t r = 0; r < kR; ++r)
      DP_UNROLL_WEIGHTS for (size_t v = 0; v < kV; ++v)
          hn::StoreU(sum[r][v], d, sums + r * kPanelRows + v * lanes);
}

// A panel with a block of `count` rows of weights.
template <size_t kV>
void multiply_panel(const float* panel, WeightRows weights, size_t count, size_t depth, bool first,
                    float* sums, ComingMemory& coming) {
  const auto multiply = [&](auto tile, size_t rows, size_t& o) {
    for (; o + rows <= count; o += rows)
      tile(panel, WeightRows{weights.data + o * weights.stride, weights.stride}, depth, first,
           sums + o * kPanelRows, coming);
  };
  size_t o = 0;
  multiply(multiply_tile<kTile, kV>, kTile, o);
  multiply(multiply_tile<4, kV>, 4, o);
  multiply(multiply_tile<1, kV>, 1, o);
}

// y[m,o] (+)= sums[o,m] for `count` outputs and `rows` rows of x. They are transposed in a small array first: rows of y
// are often a multiple of a page apart and share a set of the cache, so each line of y is written at once.
void put_sums(const float* sums, size_t count, size_t rows, const LinearOutput& out, float* y) {
  constexpr size_t kStride = kPanelBlock + 16;
  alignas(64) float block[kPanelRows * kStride];
  size_t o = 0;
  for (; o + 4 <= count; o += 4)
    transpose_4(sums + o * kPanelRows, kPanelRows, rows, block + o, kStride);
  for (; o < count; ++o)
    for (size_t m = 0; m < rows; ++m) block[m * kStride + o] = sums[o * kPanelRows + m];
  const WeightLanes d;
  const size_t lanes = hn::Lanes(d);
  for (size_t m = 0; m < rows; ++m) {
    const float* HWY_RESTRICT from = block + m * kStride;
    float* HWY_RESTRICT to = y + m * out.stride;
    size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto sum = hn::Load(d, from + i);
      hn::StoreU(out.add ? hn::Add(hn::LoadU(d, to + i), sum) : sum, d, to + i);
    }
    for (; i < count; ++i) to[i] = (out.add ? to[i] : 0) + from[i];
  }
}

void multiply_block(const float* panels, size_t M, const LinearOutput& out, size_t begin,
                    size_t end, ComingMemory& coming, float* memory) {
  const WeightMatrix& w = out.weight;
  const size_t I = w.columns, count = end - begin, num_panels = (M + kPanelRows - 1) / kPanelRows;
  const bool in_place = w.format == WeightFormat::kFloat32 && num_panels <= kPanelsInPlace;
  float* widened = memory;
  float* sums = memory + count * kWideStride;
  for (size_t i = 0; i < I; i += kPanelDepth) {
    const size_t depth = std::min(kPanelDepth, I - i);
    WeightRows weights{widened, kWideStride};
    if (in_place)
      weights = {static_cast<const float*>(w.data) + begin * I + i, I};
    else
      widen_block(w, begin, end, i, depth, widened);
    for (size_t p = 0; p < num_panels; ++p) {
      const float* panel = panels + (p * I + i) * kPanelRows;
      float* panel_sums = sums + p * count * kPanelRows;
      const bool half = M - p * kPanelRows <= kMost;  // the last panel may fill one vector only
      (half ? multiply_panel<1> : multiply_panel<2>)(panel, weights, count, depth, i == 0,
                                                     panel_sums, coming);
    }
  }
  for (size_t p = 0; p < num_panels; ++p)
    put_sums(sums + p * count * kPanelRows, count, std::min(kPanelRows, M - p * kPanelRows), out,
             out.y + p * kPanelRows * out.stride + begin);
}

void panel_product_target(const float* panels, size_t M, const LinearOutput& out, size_t begin,
                          size_t end, ComingMemory& coming, float* memory) {
  for (; begin < end; begin += kPanelBlock)
    multiply_block(panels, M, out, begin, std::min(end, begin + kPanelBlock), coming, memory);
}

size_t panel_width_target() { return kPanelRows; }

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(pack_panel_target);
HWY_EXPORT(panel_product_target);
HWY_EXPORT(panel_width_target);
HWY_EXPORT(widen_row_target);

size_t panel_width() { return HWY_DYNAMIC_DISPATCH(panel_width_target)(); }

void pack_panel(const float* x, size_t M, size_t I, size_t p, float* panel) {
  HWY_DYNAMIC_DISPATCH(pack_panel_target)(x, M, I, p, panel);
}

size_t panel_product_memory(size_t M) {
  const size_t width = panel_width();
  return kPanelBlock * (kPanelDepth + 16 + (M + width - 1) / width * width);
}

void panel_product(const float* panels, size_t M, const LinearOutput& output, size_t begin,
                   size_t end, ComingMemory& coming, float* memory) {
  HWY_DYNAMIC_DISPATCH(panel_product_target)(panels, M, output, begin, end, coming, memory);
}

void widen_row(const WeightMatrix& weight, size_t row, float* out) {
  HWY_DYNAMIC_DISPATCH(widen_row_target)(weight, row, out);
}

}  // namespace dp
#endif
