// Register tiles: R rows by one panel of kPanel columns, held in vector registers while a product is
// summed into them. Everything the chunk kernels multiply goes through the two add_* functions here.
#if defined(DP_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_TILE_INL_H_
#undef DP_KERNELS_TILE_INL_H_
#else
#define DP_KERNELS_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "kernels/chunk_plan.h"

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

/// R rows of W vectors: a whole panel, or one vector where a panel would waste half its columns.
template <size_t R, size_t W = kVecs>
struct Tile {
  Vec v[R][W];
};

// Loops over a tile's rows and vectors must be unrolled, or the tile lives in memory.
#define DP_UNROLL _Pragma("GCC unroll 32")
#define DP_FOR_TILE(r, c) \
  DP_UNROLL for (size_t r = 0; r < R; ++r) DP_UNROLL for (size_t c = 0; c < W; ++c)

template <size_t R, size_t W>
HWY_INLINE void set_zero(Tile<R, W>& tile) {
  DP_FOR_TILE(r, c) tile.v[r][c] = hn::Zero(kTag);
}

template <size_t R, size_t W>
HWY_INLINE void load(Tile<R, W>& tile, const float* HWY_RESTRICT from, size_t stride) {
  DP_FOR_TILE(r, c) tile.v[r][c] = hn::LoadU(kTag, from + r * stride + c * kLanes);
}

template <size_t R, size_t W>
HWY_INLINE void store(const Tile<R, W>& tile, float* HWY_RESTRICT to, size_t stride) {
  DP_FOR_TILE(r, c) hn::StoreU(tile.v[r][c], kTag, to + r * stride + c * kLanes);
}

/// tile *= factor
template <size_t R, size_t W>
HWY_INLINE void scale_all(Tile<R, W>& tile, float factor) {
  const Vec fv = hn::Set(kTag, factor);
  DP_FOR_TILE(r, c) tile.v[r][c] = hn::Mul(fv, tile.v[r][c]);
}

/// tile[r] *= factors[r]
template <size_t R, size_t W>
HWY_INLINE void scale_rows(Tile<R, W>& tile, const float* HWY_RESTRICT factors) {
  DP_FOR_TILE(r, c) tile.v[r][c] = hn::Mul(hn::Set(kTag, factors[r]), tile.v[r][c]);
}

/// tile[r] *= factors, column by column
template <size_t R, size_t W>
HWY_INLINE void scale_columns(Tile<R, W>& tile, const float* HWY_RESTRICT factors) {
  DP_FOR_TILE(r, c) tile.v[r][c] = hn::Mul(hn::LoadU(kTag, factors + c * kLanes), tile.v[r][c]);
}

/// row += sign a b for the vectors of one tile row
template <bool kSubtract, size_t W>
HWY_INLINE void add_scaled(Vec (&row)[W], float a, const Vec (&b)[W]) {
  const Vec av = hn::Set(kTag, a);
  DP_UNROLL for (size_t c = 0; c < W; ++c) {
    row[c] = kSubtract ? hn::NegMulAdd(av, b[c], row[c]) : hn::MulAdd(av, b[c], row[c]);
  }
}

template <size_t W>
HWY_INLINE void load_row(Vec (&row)[W], const float* HWY_RESTRICT from) {
  DP_UNROLL for (size_t c = 0; c < W; ++c) row[c] = hn::LoadU(kTag, from + c * kLanes);
}

/// tile[r] += sign sum_{p < count} a[p a_stride + r] b[p b_stride ..]: A is read transposed.
template <bool kSubtract = false, size_t R, size_t W>
HWY_INLINE void add_product_t(Tile<R, W>& tile, const float* HWY_RESTRICT a, size_t a_stride,
                              const float* HWY_RESTRICT b, size_t b_stride, size_t count) {
  for (size_t p = 0; p < count; ++p, a += a_stride, b += b_stride) {
    Vec bv[W];
    load_row(bv, b);
    DP_UNROLL for (size_t r = 0; r < R; ++r) add_scaled<kSubtract>(tile.v[r], a[r], bv);
  }
}

/// tile[r] += sign sum_{p < count} a[r a_stride + p] b[p b_stride ..]
template <bool kSubtract = false, size_t R, size_t W>
HWY_INLINE void add_product(Tile<R, W>& tile, const float* HWY_RESTRICT a, size_t a_stride,
                            const float* HWY_RESTRICT b, size_t b_stride, size_t count) {
  for (size_t p = 0; p < count; ++p, b += b_stride) {
    Vec bv[W];
    load_row(bv, b);
    DP_UNROLL for (size_t r = 0; r < R; ++r)
        add_scaled<kSubtract>(tile.v[r], a[r * a_stride + p], bv);
  }
}

/// out[d][i] = factors[i] matrix[d][i] for d < rows, i < columns rounded up to a vector
inline void scale_columns(const float* HWY_RESTRICT matrix, const float* HWY_RESTRICT factors,
                          size_t rows, size_t stride, size_t columns, float* HWY_RESTRICT out) {
  for (size_t d = 0; d < rows; ++d, matrix += stride, out += stride)
    for (size_t i = 0; i < columns; i += kLanes)
      hn::StoreU(hn::Mul(hn::LoadU(kTag, factors + i), hn::LoadU(kTag, matrix + i)), kTag, out + i);
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

/// Covers rows 0 .. rows-1 with tiles of W vectors: f(R, first_row) in increasing order.
template <size_t W = kVecs, class F>
HWY_INLINE void for_tiles(size_t rows, const F& f) {
  for (size_t first = 0; first < rows;) {
    const size_t height = next_rows<kMaxRows<W>>(rows - first);
    with_rows<kMaxRows<W>>(height, first, f);
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

// Columns of a block that is transposed in registers: four, or eight where vectors are long enough.
inline constexpr size_t kBlockColumns = HWY_MIN(HWY_MAX(kLanes, 4), 8);

// to[c][r] = factors[r] from[r][c] for r < 4, c < kBlockColumns; factors only if kScale.
template <bool kScale>
HWY_INLINE void transpose_block(const float* HWY_RESTRICT from, size_t from_stride,
                                const float* HWY_RESTRICT factors, float* HWY_RESTRICT to,
                                size_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t c = 0; c < kBlockColumns; ++c)
    for (size_t r = 0; r < 4; ++r)
      to[c * to_stride + r] =
          kScale ? factors[r] * from[r * from_stride + c] : from[r * from_stride + c];
#else
  const hn::FixedTag<float, kBlockColumns> d;
  const hn::FixedTag<float, 4> d4;
  const auto put4 = [&](auto column, size_t c) HWY_ATTR {
    if constexpr (kScale) column = hn::Mul(hn::LoadU(d4, factors), column);
    hn::StoreU(column, d4, to + c * to_stride);
  };
  const auto put = [&](auto columns, size_t c) HWY_ATTR {
    if constexpr (kBlockColumns == 8) {  // each 128-bit block of a vector holds one column
      put4(hn::LowerHalf(d4, columns), c);
      put4(hn::UpperHalf(d4, columns), c + 4);
    } else {
      put4(columns, c);
    }
  };
  const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + from_stride);
  const auto r2 = hn::LoadU(d, from + 2 * from_stride), r3 = hn::LoadU(d, from + 3 * from_stride);
  const auto low02 = hn::InterleaveLower(d, r0, r2), low13 = hn::InterleaveLower(d, r1, r3);
  const auto up02 = hn::InterleaveUpper(d, r0, r2), up13 = hn::InterleaveUpper(d, r1, r3);
  put(hn::InterleaveLower(d, low02, low13), 0);
  put(hn::InterleaveUpper(d, low02, low13), 1);
  put(hn::InterleaveLower(d, up02, up13), 2);
  put(hn::InterleaveUpper(d, up02, up13), 3);
#endif
}

/// to[c][r] = from[r][c], times factors[r] if kScale. Goes along the rows of `from`, four at a time, or
/// with kAlongColumns along the rows of `to`: whichever are far apart in memory.
template <bool kScale = false, bool kAlongColumns = false>
inline void transpose(const float* HWY_RESTRICT from, size_t from_stride, size_t rows,
                      size_t columns, float* HWY_RESTRICT to, size_t to_stride,
                      const float* factors = nullptr) {
  const size_t block_rows = rows / 4 * 4, block_columns = columns / kBlockColumns * kBlockColumns;
  const auto block = [&](size_t r, size_t c) HWY_ATTR {
    transpose_block<kScale>(from + r * from_stride + c, from_stride, kScale ? factors + r : nullptr,
                            to + c * to_stride + r, to_stride);
  };
  if constexpr (kAlongColumns) {
    for (size_t c = 0; c < block_columns; c += kBlockColumns)
      for (size_t r = 0; r < block_rows; r += 4) block(r, c);
  } else {
    for (size_t r = 0; r < block_rows; r += 4)
      for (size_t c = 0; c < block_columns; c += kBlockColumns) block(r, c);
  }
  const auto edge = [&](size_t r_begin, size_t r_end, size_t c_begin) {
    for (size_t r = r_begin; r < r_end; ++r)
      for (size_t c = c_begin; c < columns; ++c)
        to[c * to_stride + r] =
            kScale ? factors[r] * from[r * from_stride + c] : from[r * from_stride + c];
  };
  if (block_columns < columns) edge(0, block_rows, block_columns);
  if (block_rows < rows) edge(block_rows, rows, 0);
}

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // DP_KERNELS_TILE_INL_H_
