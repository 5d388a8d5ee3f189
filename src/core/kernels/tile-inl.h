// Register tiles: R rows by one or two panels of kPanel columns, held in vector registers while a product is
// summed into them. Everything the chunk kernels multiply goes through the two add_* functions here.
#if defined(DP_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_TILE_INL_H_
#undef DP_KERNELS_TILE_INL_H_
#else
#define DP_KERNELS_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "kernels/chunk_plan.h"
#include "kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of at most one panel. Scalable targets (SVE, RVV) are disabled in CMakeLists.txt: their
// vectors cannot be array elements.
inline constexpr size_t kLanes = HWY_MIN(HWY_LANES(float), kPanel);
using FloatTag = hn::FixedTag<float, kLanes>;
using Vec = hn::Vec<FloatTag>;
static constexpr FloatTag kTag{};
inline constexpr size_t kVecs = kPanel / kLanes;

// Rows of a tile: 12 accumulators leave room in 16 registers for two operands and hide the latency of
// fused multiply-add (4 cycles x 2 units) on AVX2 and SSE; with 32 registers twice as many fit.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr size_t kAccumulators = 24;
#else
inline constexpr size_t kAccumulators = 12;
#endif
template <size_t W>
inline constexpr size_t kMaxRows = HWY_MAX(HWY_MIN(kAccumulators / W, 12), 1);

// Rows of a tile one vector wide, where 16 steps should fit into one.
inline constexpr size_t kMaxNarrowRows = kAccumulators == 24 ? 16 : kMaxRows<1>;

// Panels that a tile covers. Where a vector is a whole panel, a tile of one panel needs a load (the broadcast) for each
// multiply-add, and cores have as many ports for one as for the other; two panels share it.
inline constexpr size_t kTilePanels = kVecs == 1 && kAccumulators == 24 ? 2 : 1;

/// R rows of W vectors: whole panels, or one vector where a panel would waste half its columns.
template <size_t R, size_t W = kVecs>
struct Tile {
  Vec v[R][W];
};

/// Where vector c of a row lies: those of a panel are adjacent, the next panel begins `panel` floats after this one. In
/// matrices that are not kept in panels it simply follows (panel = kPanel).
constexpr size_t column_offset(size_t c, size_t panel) {
  return c / kVecs * panel + c % kVecs * kLanes;
}

// Over the rows and vectors of a Tile<R, W>.
#define DP_FOR_TILE(r, c) \
  DP_FOR (r, R)           \
    DP_FOR (c, W)

template <size_t R, size_t W>
HWY_INLINE void set_zero(Tile<R, W>& tile) {
  DP_FOR_TILE (r, c) tile.v[r][c] = hn::Zero(kTag);
}

template <size_t R, size_t W>
HWY_INLINE void load(Tile<R, W>& tile, const float* HWY_RESTRICT from, size_t stride,
                     size_t panel = kPanel) {
  DP_FOR_TILE (r, c) tile.v[r][c] = hn::LoadU(kTag, from + r * stride + column_offset(c, panel));
}

template <size_t R, size_t W>
HWY_INLINE void store(const Tile<R, W>& tile, float* HWY_RESTRICT to, size_t stride,
                      size_t panel = kPanel) {
  DP_FOR_TILE (r, c) hn::StoreU(tile.v[r][c], kTag, to + r * stride + column_offset(c, panel));
}

/// Only the first `columns` columns.
template <size_t R, size_t W>
HWY_INLINE void store_columns(const Tile<R, W>& tile, size_t columns, float* HWY_RESTRICT to,
                              size_t stride) {
  if (HWY_LIKELY(columns >= W * kLanes)) {
    store(tile, to, stride);
    return;
  }
  HWY_ALIGN float padded[R * W * kLanes];
  store(tile, padded, W * kLanes);
  for (size_t r = 0; r < R; ++r)
    std::memcpy(to + r * stride, padded + r * W * kLanes, columns * sizeof(float));
}

/// Stores a vector. If `streaming`, past the caches; then `to` must be aligned to the vector.
HWY_INLINE void store(Vec v, float* HWY_RESTRICT to, bool streaming) {
  if (streaming) {
    hn::Stream(v, kTag, to);
  } else {
    hn::StoreU(v, kTag, to);
  }
}

/// The first `columns` columns; if `streaming`, rows must be whole vectors and aligned.
template <size_t R, size_t W>
HWY_INLINE void store_columns(const Tile<R, W>& tile, size_t columns, float* HWY_RESTRICT to,
                              size_t stride, bool streaming) {
  if (streaming && columns >= W * kLanes) {
    DP_FOR_TILE (r, c) hn::Stream(tile.v[r][c], kTag, to + r * stride + c * kLanes);
  } else {
    store_columns(tile, columns, to, stride);
  }
}

/// Rows of panels, likewise.
template <size_t R, size_t W>
HWY_INLINE void store_panels(const Tile<R, W>& tile, float* HWY_RESTRICT to, size_t panel,
                             bool streaming) {
  if (streaming) {
    DP_FOR_TILE (r, c) hn::Stream(tile.v[r][c], kTag, to + r * kPanel + column_offset(c, panel));
  } else {
    store(tile, to, kPanel, panel);
  }
}

/// tile *= factor
template <size_t R, size_t W>
HWY_INLINE void scale_all(Tile<R, W>& tile, float factor) {
  const Vec fv = hn::Set(kTag, factor);
  DP_FOR_TILE (r, c) tile.v[r][c] = hn::Mul(fv, tile.v[r][c]);
}

/// tile[r] *= factors[r]
template <size_t R, size_t W>
HWY_INLINE void scale_rows(Tile<R, W>& tile, const float* HWY_RESTRICT factors) {
  DP_FOR_TILE (r, c) tile.v[r][c] = hn::Mul(hn::Set(kTag, factors[r]), tile.v[r][c]);
}

/// tile[r] *= factors, column by column
template <size_t R, size_t W>
HWY_INLINE void scale_columns(Tile<R, W>& tile, const float* HWY_RESTRICT factors) {
  DP_FOR_TILE (r, c) tile.v[r][c] = hn::Mul(hn::LoadU(kTag, factors + c * kLanes), tile.v[r][c]);
}

/// row += sign a b for the vectors of one tile row
template <bool kSubtract, size_t W>
HWY_INLINE void add_scaled(Vec (&row)[W], float a, const Vec (&b)[W]) {
  const Vec av = hn::Set(kTag, a);
  DP_FOR (c, W) {
    row[c] = kSubtract ? hn::NegMulAdd(av, b[c], row[c]) : hn::MulAdd(av, b[c], row[c]);
  }
}

template <size_t W>
HWY_INLINE void load_row(Vec (&row)[W], const float* HWY_RESTRICT from, size_t panel = kPanel) {
  DP_FOR (c, W) row[c] = hn::LoadU(kTag, from + column_offset(c, panel));
}

/// tile[r] += sign sum_{p < count} a[p a_stride + r] b[p b_stride ..]: A is read transposed.
template <bool kSubtract = false, size_t R, size_t W>
HWY_INLINE void add_product_t(Tile<R, W>& tile, const float* HWY_RESTRICT a, size_t a_stride,
                              const float* HWY_RESTRICT b, size_t b_stride, size_t count,
                              size_t panel = kPanel) {
  for (size_t p = 0; p < count; ++p, a += a_stride, b += b_stride) {
    Vec bv[W];
    load_row(bv, b, panel);
    DP_FOR (r, R) add_scaled<kSubtract>(tile.v[r], a[r], bv);
  }
}

/// tile[r] += sign sum_{p < count} a[r a_stride + p] b[p b_stride ..]
template <bool kSubtract = false, size_t R, size_t W>
HWY_INLINE void add_product(Tile<R, W>& tile, const float* HWY_RESTRICT a, size_t a_stride,
                            const float* HWY_RESTRICT b, size_t b_stride, size_t count,
                            size_t panel = kPanel) {
  for (size_t p = 0; p < count; ++p, b += b_stride) {
    Vec bv[W];
    load_row(bv, b, panel);
    DP_FOR (r, R) add_scaled<kSubtract>(tile.v[r], a[r * a_stride + p], bv);
  }
}

/// out[r][d] = factors[r] from[r][d], or without factors from[r][d] itself; rows of out are adjacent.
inline void scale_rows(const float* HWY_RESTRICT from, size_t stride, size_t rows, size_t width,
                       const float* HWY_RESTRICT factors, float* HWY_RESTRICT out) {
  for (size_t r = 0; r < rows; ++r, from += stride, out += width) {
    const float factor = factors == nullptr ? 1.0f : factors[r];
    const Vec fv = hn::Set(kTag, factor);
    size_t d = 0;
    for (; d + kLanes <= width; d += kLanes)
      hn::StoreU(hn::Mul(fv, hn::LoadU(kTag, from + d)), kTag, out + d);
    for (; d < width; ++d) out[d] = factor * from[d];
  }
}

// Calls f(integral_constant rows, first_row), rows <= kMax.
template <size_t kMax, class F>
HWY_INLINE void with_rows(size_t rows, size_t first, const F& f) {
  if (rows == kMax) {
    f(std::integral_constant<size_t, kMax>(), first);
  } else if constexpr (kMax > 1) {
    with_rows<kMax - 1>(rows, first, f);
  }
}

// The next tile's height: full tiles, and the last two of near-equal height, since a tile of one or
// two rows runs at a fraction of the speed.
template <size_t kMax>
HWY_INLINE size_t next_rows(size_t remaining) {
  if (remaining <= kMax) return remaining;
  return remaining >= 2 * kMax ? kMax : (remaining + 1) / 2;
}

/// Covers panels [begin, end): f(integral_constant panels, first_panel), as many at once as a tile does.
template <class F>
HWY_INLINE void for_panels(size_t begin, size_t end, const F& f) {
  for (size_t p = begin; p < end;) {
    const size_t count = HWY_MIN(kTilePanels, end - p);
    with_rows<kTilePanels>(count, p, f);
    p += count;
  }
}

/// Covers rows 0 .. rows-1 with tiles of W vectors: f(R, first_row) in increasing order.
template <size_t W = kVecs, size_t kMax = kMaxRows<W>, class F>
HWY_INLINE void for_tiles(size_t rows, const F& f) {
  for (size_t first = 0; first < rows;) {
    const size_t height = next_rows<kMax>(rows - first);
    with_rows<kMax>(height, first, f);
    first += height;
  }
}

/// As for_tiles, in decreasing order.
template <size_t W = kVecs, class F>
HWY_INLINE void for_tiles_reversed(size_t rows, const F& f) {
  for (size_t end = rows; end > 0;) {
    const size_t height = next_rows<kMaxRows<W>>(end);
    with_rows<kMaxRows<W>>(height, end - height, f);
    end -= height;
  }
}

// to[c][r] = factors[r] from[r][c] for r < kRows (4, 8, or 16 on AVX-512), c < 4; factors only if kScale.
template <size_t kRows, bool kScale>
HWY_INLINE void transpose_block(const float* HWY_RESTRICT from, size_t from_stride,
                                const float* HWY_RESTRICT factors, float* HWY_RESTRICT to,
                                size_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t c = 0; c < 4; ++c)
    for (size_t r = 0; r < kRows; ++r)
      to[c * to_stride + r] =
          kScale ? factors[r] * from[r * from_stride + c] : from[r * from_stride + c];
#else
  const hn::FixedTag<float, kRows> d;
  // Rows r, r + 4, ... side by side: interleaving works within blocks of four.
  const auto get = [&](size_t r) HWY_ATTR {
    const hn::FixedTag<float, 4> d4;
    const float* row = from + r * from_stride;
    if constexpr (kRows == 4) {
      return hn::LoadU(d4, row);
    } else if constexpr (kRows == 8) {
      return hn::Combine(d, hn::LoadU(d4, row + 4 * from_stride), hn::LoadU(d4, row));
    } else {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
      // Loads into one block of a vector need no shuffle, of which there is one per cycle.
      __m512 rows = _mm512_castps128_ps512(_mm_loadu_ps(row));
      rows = _mm512_mask_broadcast_f32x4(rows, 0xF0, _mm_loadu_ps(row + 4 * from_stride));
      rows = _mm512_mask_broadcast_f32x4(rows, 0xF00, _mm_loadu_ps(row + 8 * from_stride));
      rows = _mm512_mask_broadcast_f32x4(rows, 0xF000, _mm_loadu_ps(row + 12 * from_stride));
      return hn::Vec<decltype(d)>{rows};
#endif
    }
  };
  const auto put = [&](auto column, size_t c) HWY_ATTR {
    if constexpr (kScale) column = hn::Mul(hn::LoadU(d, factors), column);
    hn::StoreU(column, d, to + c * to_stride);
  };
  const auto r0 = get(0), r1 = get(1), r2 = get(2), r3 = get(3);
  const auto low02 = hn::InterleaveLower(d, r0, r2), low13 = hn::InterleaveLower(d, r1, r3);
  const auto up02 = hn::InterleaveUpper(d, r0, r2), up13 = hn::InterleaveUpper(d, r1, r3);
  put(hn::InterleaveLower(d, low02, low13), 0);
  put(hn::InterleaveUpper(d, low02, low13), 1);
  put(hn::InterleaveLower(d, up02, up13), 2);
  put(hn::InterleaveUpper(d, up02, up13), 3);
#endif
}

/// to[c][r] = from[r][c], times factors[r] if kScale.
template <bool kScale = false>
HWY_NOINLINE void transpose(const float* HWY_RESTRICT from, size_t from_stride, size_t rows,
                            size_t columns, float* HWY_RESTRICT to, size_t to_stride,
                            const float* HWY_RESTRICT factors = nullptr) {
  const size_t block_columns = columns / 4 * 4;
  size_t r = 0;
  const auto blocks = [&](auto height) HWY_ATTR {
    for (; r + height() <= rows; r += height()) {
      const float* in = from + r * from_stride;
      float* out = to + r;
      const float* scales = kScale ? factors + r : nullptr;
      for (size_t c = 0; c < block_columns; c += 4, in += 4, out += 4 * to_stride)
        transpose_block<height(), kScale>(in, from_stride, scales, out, to_stride);
    }
  };
  if constexpr (kLanes == 16 && HWY_ARCH_X86) blocks(std::integral_constant<size_t, 16>());
  if constexpr (kLanes >= 8) blocks(std::integral_constant<size_t, 8>());
  blocks(std::integral_constant<size_t, 4>());
  const auto edge = [&](size_t r_begin, size_t r_end, size_t c_begin) {
    for (size_t i = r_begin; i < r_end; ++i)
      for (size_t c = c_begin; c < columns; ++c)
        to[c * to_stride + i] =
            kScale ? factors[i] * from[i * from_stride + c] : from[i * from_stride + c];
  };
  if (block_columns < columns) edge(0, r, block_columns);
  if (r < rows) edge(r, rows, 0);
}

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // DP_KERNELS_TILE_INL_H_
