// Products of an int8 or int4 matrix with a few vectors, in whole numbers: as fast as the matrix can be read. Products of
// a group are sums of 16-bit activations times levels, exact in 32 bits, and scaled once. Like dot_rows.cpp several
// far-apart rows at a time, and every sum in the same order, whichever rows or vectors are computed beside it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dot_quantised.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/activation_rounding.h"
#include "kernels/linear_kernels.h"
#include "kernels/weight_formats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// A group or less.
void round_rest(const float* x, size_t count, float* out) {
  int16_t values[kWeightGroup];
  const float scale = round_group(x, count, values);
  for (size_t i = 0; i < count; ++i) out[i] = scale * static_cast<float>(values[i]);
}

#if HWY_TARGET != HWY_SCALAR

using Sums = hn::Rebind<int32_t, WeightLanes>;
using Halves = hn::Repartition<int16_t, WeightLanes>;
using HalfVec = hn::Vec<Halves>;
// Scales are fetched so many ahead: those of a few rows.
constexpr size_t kScalesAhead = 256;
constexpr size_t kHalfVectors = kWeightGroup / hn::MaxLanes(Halves());  // of a group

// Sums of products of neighbours, in an order that depends on the target alone.
template <size_t kN>
HWY_INLINE WeightVec exact_products(const HalfVec (&a)[kN], const HalfVec (&b)[kN]) {
  const Sums d;
  auto low = hn::Zero(d), high = hn::Zero(d);
  DP_UNROLL_WEIGHTS for (size_t v = 0; v < kN; ++v) low =
      hn::ReorderWidenMulAccumulate(d, a[v], b[v], low, high);
  return hn::ConvertTo(WeightLanes(), hn::Add(low, high));
}

// How a format is taken apart: kGroups groups at a time, as vectors of 16-bit levels, and activations and scales to match.
template <WeightFormat kFormat>
struct Levels;

template <>
struct Levels<WeightFormat::kInt8> {
  static constexpr size_t kGroups = 1, kVectors = kHalfVectors, kBytes = kWeightGroup;

  static HWY_INLINE void load(const uint8_t* p, HalfVec (&out)[kVectors]) {
    const Halves d;
    const hn::Rebind<int8_t, Halves> bytes;
    DP_UNROLL_WEIGHTS for (size_t v = 0; v < kVectors; ++v) out[v] = hn::PromoteTo(
        d, hn::LoadU(bytes, reinterpret_cast<const int8_t*>(p) + v * hn::Lanes(d)));
  }
  static HWY_INLINE void load_activations(const int16_t* x, HalfVec (&out)[kVectors]) {
    load_vectors(x, out);
  }
  template <size_t kN>
  static HWY_INLINE void load_vectors(const int16_t* x, HalfVec (&out)[kN]) {
    const Halves d;
    DP_UNROLL_WEIGHTS for (size_t v = 0; v < kN; ++v) out[v] = hn::LoadU(d, x + v * hn::Lanes(d));
  }
  static HWY_INLINE WeightVec scale(const float* scales) {
    return hn::Set(WeightLanes(), *scales);
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr bool kInt4Reorders = true;

// Four groups at a time, 64 bytes as 32 words: four bits of each word are looked up in a table of words, the lowest ones
// first, and meet activations in that order.
template <>
struct Levels<WeightFormat::kInt4> {
  static constexpr size_t kGroups = kInt4Groups, kVectors = 4, kBytes = 64;

  static HWY_INLINE void load(const uint8_t* p, HalfVec (&out)[kVectors]) {
    // Five bits of an index count: the table is there twice.
    const __m256i levels = _mm256_cvtepi8_epi16(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(kInt4Levels)));
    const __m512i table = _mm512_broadcast_i64x4(levels);
    const __m512i codes = _mm512_loadu_si512(p);
    out[0] = HalfVec{_mm512_permutexvar_epi16(codes, table)};
    out[1] = HalfVec{_mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), table)};
    out[2] = HalfVec{_mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), table)};
    out[3] = HalfVec{_mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), table)};
  }
  static HWY_INLINE void load_activations(const int16_t* x, HalfVec (&out)[kVectors]) {
    Levels<WeightFormat::kInt8>::load_vectors(x, out);
  }
  // Sums of a group are four neighbours.
  static HWY_INLINE WeightVec scale(const float* scales) {
    const __m512i lane = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512 four = _mm512_broadcast_f32x4(_mm_loadu_ps(scales));
    return WeightVec{_mm512_permutevar_ps(four, lane)};
  }
};

// Activations of four groups in the order of Levels<kInt4>: word 8 g + j of a vector is about bytes 2 j and 2 j + 1 of
// group g, thus about columns 2 j, 2 j + 16, 2 j + 1 and 2 j + 17.
HWY_INLINE void reorder_for_int4(const int16_t* HWY_RESTRICT values, int16_t* HWY_RESTRICT out) {
  constexpr size_t kColumns[] = {0, 16, 1, 17};
  for (size_t v = 0; v < 4; ++v)
    for (size_t g = 0; g < kInt4Groups; ++g)
      for (size_t j = 0; j < 8; ++j)
        out[(v * kInt4Groups + g) * 8 + j] = values[g * kWeightGroup + 2 * j + kColumns[v]];
}
#else
constexpr bool kInt4Reorders = false;

HWY_INLINE void reorder_for_int4(const int16_t*, int16_t*) {}

template <>
struct Levels<WeightFormat::kInt4> : Levels<WeightFormat::kInt8> {
  static constexpr size_t kBytes = kWeightGroup / 2;

  static HWY_INLINE void load(const uint8_t* p, HalfVec (&out)[kVectors]) {
    const hn::FixedTag<uint8_t, 16> bytes;
    const hn::FixedTag<int8_t, 16> signed_bytes;
    const auto levels = hn::BitCast(bytes, hn::LoadU(signed_bytes, kInt4Levels));
    const auto pairs = hn::LoadU(bytes, p);
    alignas(16) uint8_t values[kWeightGroup];
    hn::Store(hn::TableLookupBytes(levels, hn::And(pairs, hn::Set(bytes, 15))), bytes, values);
    hn::Store(hn::TableLookupBytes(levels, hn::ShiftRight<4>(pairs)), bytes, values + 16);
    Levels<WeightFormat::kInt8>::load(values, out);
  }
};
#endif

// Scales of the weights of groups first .. first + count - 1 of a row times those of x, rounded up to whole steps.
HWY_INLINE void multiply_scales(const uint16_t* scales, const float* x_scales, size_t count,
                                float* HWY_RESTRICT out) {
  const WeightLanes d;
  const hn::Rebind<uint32_t, WeightLanes> words;
  const hn::Rebind<uint16_t, WeightLanes> halves;
  const size_t lanes = hn::Lanes(d);
  size_t g = 0;
  for (; g + lanes <= count; g += lanes) {
    const auto bits = hn::PromoteTo(words, hn::LoadU(halves, scales + g));
    const auto weights = hn::BitCast(d, hn::ShiftLeft<16>(bits));
    hn::Store(hn::Mul(weights, hn::LoadU(d, x_scales + g)), d, out + g);
  }
  for (; g < count; ++g) out[g] = from_bfloat16(scales[g]) * x_scales[g];
}

// sums[r][m] += what Format::kGroups groups from p[r] on give with the m-th row of activations, `stride` apart; scales are
// products of both.
template <class Format, size_t kR, size_t kM>
HWY_INLINE void add_groups(const uint8_t* const (&p)[kR], const int16_t* activations, size_t stride,
                           const float (&scales)[kR][kM][kScaleBlock], size_t g,
                           WeightVec (&sums)[kR][kM]) {
  HalfVec a[kM][Format::kVectors];
  DP_UNROLL_WEIGHTS for (size_t m = 0; m < kM; ++m)
      Format::load_activations(activations + m * stride, a[m]);
  DP_UNROLL_WEIGHTS for (size_t r = 0; r < kR; ++r) {
    HalfVec levels[Format::kVectors];
    Format::load(p[r], levels);
    DP_UNROLL_WEIGHTS for (size_t m = 0; m < kM; ++m) sums[r][m] = hn::MulAdd(
        exact_products(levels, a[m]), Format::scale(&scales[r][m][g]), sums[r][m]);
  }
}

// Rows row, row + gap, ... of the weight, kR of them, with kM rows of x.
template <WeightFormat kFormat, size_t kR, size_t kM>
HWY_INLINE void quantised_tile(const RoundedRows& x, size_t first_row, const LinearOutput& out,
                               size_t row, size_t gap) {
  using Format = Levels<kFormat>;
  constexpr size_t kGroupBytes = Format::kBytes / Format::kGroups;
  const WeightLanes d;
  const WeightMatrix& w = out.weight;
  const size_t row_bytes = w.row_bytes(), all_groups = w.groups();
  // Groups that may be read whole: the last one of an int8 row may be shorter.
  const size_t groups = kFormat == WeightFormat::kInt4 ? all_groups : w.columns / kWeightGroup;
  const size_t whole = groups / Format::kGroups * Format::kGroups;
  const auto* data = static_cast<const uint8_t*>(w.data) + row * row_bytes;
  const uint16_t* scales = w.scales + row * all_groups;
  const bool reordered = kInt4Reorders && kFormat == WeightFormat::kInt4;
  const size_t stride = x.groups * kWeightGroup;
  const int16_t* values = (reordered ? x.int4_values : x.values) + first_row * stride;
  const float* x_scales = x.scales + first_row * x.groups;
  WeightVec sums[kR][kM];
  DP_UNROLL_WEIGHTS for (size_t r = 0; r < kR; ++r)
      DP_UNROLL_WEIGHTS for (size_t m = 0; m < kM; ++m) sums[r][m] = hn::Zero(d);
  // So many groups at a time: their scales are a vector or more, and stay in the first-level cache.
  alignas(64) float products[kR][kM][kScaleBlock];
  for (size_t first = 0; first < whole; first += kScaleBlock) {
    const size_t count = std::min(kScaleBlock, whole - first);
    DP_UNROLL_WEIGHTS for (size_t r = 0; r < kR; ++r) {
      fetch_ahead(data + r * gap * row_bytes + first * kGroupBytes, count * kGroupBytes);
      const uint16_t* row_scales = scales + r * gap * all_groups + first;
      __builtin_prefetch(row_scales + kScalesAhead);
      DP_UNROLL_WEIGHTS for (size_t m = 0; m < kM; ++m)
          multiply_scales(row_scales, x_scales + m * x.groups + first, count, products[r][m]);
    }
    for (size_t g = first; g < first + count; g += Format::kGroups) {
      const uint8_t* p[kR];
      DP_UNROLL_WEIGHTS for (size_t r = 0; r < kR; ++r) p[r] =
          data + r * gap * row_bytes + g * kGroupBytes;
      add_groups<Format>(p, values + g * kWeightGroup, stride, products, g - first, sums);
    }
  }
  // Fewer groups may be left than are read at once; beyond them x has zeros.
  WeightVec rest_sums[kR][kM];
  DP_UNROLL_WEIGHTS for (size_t r = 0; r < kR; ++r)
      DP_UNROLL_WEIGHTS for (size_t m = 0; m < kM; ++m) rest_sums[r][m] = hn::Zero(d);
  if (whole < groups) {
    const size_t rest = groups - whole;
    uint8_t bytes[kR][Format::kBytes] = {};
    const uint8_t* p[kR];
    for (size_t r = 0; r < kR; ++r) {
      std::memcpy(bytes[r], data + r * gap * row_bytes + whole * kGroupBytes, rest * kGroupBytes);
      p[r] = bytes[r];
      for (size_t m = 0; m < kM; ++m) {
        std::fill_n(products[r][m], Format::kGroups, 0.0f);
        multiply_scales(scales + r * gap * all_groups + whole, x_scales + m * x.groups + whole,
                        rest, products[r][m]);
      }
    }
    add_groups<Format>(p, values + whole * kWeightGroup, stride, products, 0, rest_sums);
  }
  for (size_t r = 0; r < kR; ++r)
    for (size_t m = 0; m < kM; ++m) {
      float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sums[r][m], rest_sums[r][m])));
      float rest = 0;
      for (size_t i = groups * kWeightGroup; i < w.columns; ++i)
        rest += weight_at(w, row + r * gap, i) * static_cast<float>(values[m * stride + i]);
      if (groups < all_groups) sum += rest * x_scales[m * x.groups + groups];
      float& to = out.y[(first_row + m) * out.stride + row + r * gap];
      to = out.add ? to + sum : sum;
    }
}

// The scale of a whole group.
HWY_INLINE float group_scale(const float* group) {
  const WeightLanes d;
  const Sums words;
  auto largest = hn::Zero(words);
  for (size_t i = 0; i < kWeightGroup; i += hn::Lanes(d))
    largest = hn::Max(largest, hn::And(hn::BitCast(words, hn::LoadU(d, group + i)),
                                       hn::Set(words, 0x7fffffff)));
  return activation_scale(static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(words, largest))));
}

// store(i, whole numbers of lanes i ...) for a whole group.
template <class Store>
HWY_INLINE void round_whole_group(const float* group, float scale, const Store& store) {
  const WeightLanes d;
  const auto inverse = hn::Set(d, scale > 0 ? 1 / scale : 0);
  for (size_t i = 0; i < kWeightGroup; i += hn::Lanes(d)) {
    const auto scaled = scale > 0 ? hn::Mul(hn::LoadU(d, group + i), inverse) : hn::Zero(d);
    store(i, hn::Min(hn::NearestInt(scaled), hn::Set(Sums(), 32767)));
  }
}

void round_rows_target(const float* x, size_t M, size_t I, RoundedRows rounded) {
  const hn::Rebind<int16_t, WeightLanes> halves;
  for (size_t m = 0; m < M; ++m) {
    int16_t* values = rounded.values + m * rounded.groups * kWeightGroup;
    float* scales = rounded.scales + m * rounded.groups;
    for (size_t g = 0; g < rounded.groups; ++g, values += kWeightGroup) {
      const size_t begin = std::min(I, g * kWeightGroup), count = std::min(kWeightGroup, I - begin);
      const float* group = x + m * I + begin;
      if (count < kWeightGroup) {
        scales[g] = round_group(group, count, values);
        continue;
      }
      scales[g] = group_scale(group);
      round_whole_group(group, scales[g], [&](size_t i, hn::Vec<Sums> v) HWY_ATTR {
        hn::StoreU(hn::DemoteTo(halves, v), halves, values + i);
      });
    }
  }
  if (!kInt4Reorders || rounded.int4_values == nullptr) return;
  for (size_t i = 0; i < M * rounded.groups * kWeightGroup; i += kInt4Groups * kWeightGroup)
    reorder_for_int4(rounded.values + i, rounded.int4_values + i);
}

void round_row_target(const float* x, size_t I, float* out) {
  const WeightLanes d;
  size_t begin = 0;
  for (; begin + kWeightGroup <= I; begin += kWeightGroup) {
    const float scale = group_scale(x + begin);
    round_whole_group(x + begin, scale, [&](size_t i, hn::Vec<Sums> v) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::ConvertTo(d, v), hn::Set(d, scale)), d, out + begin + i);
    });
  }
  round_rest(x + begin, I - begin, out + begin);
}

#else  // HWY_SCALAR

template <WeightFormat kFormat, size_t kR, size_t kM>
void quantised_tile(const RoundedRows& x, size_t first_row, const LinearOutput& out, size_t row,
                    size_t gap) {
  const WeightMatrix& w = out.weight;
  for (size_t r = 0; r < kR; ++r)
    for (size_t m = 0; m < kM; ++m) {
      const size_t at = (first_row + m) * x.groups;
      float sum = 0;
      for (size_t g = 0; g < w.groups(); ++g) {
        float products = 0;
        for (size_t i = g * kWeightGroup; i < std::min(w.columns, (g + 1) * kWeightGroup); ++i)
          products += weight_at(w, row + r * gap, i) *
                      static_cast<float>(x.values[at * kWeightGroup + i]);
        sum += products * x.scales[at + g];
      }
      float& to = out.y[(first_row + m) * out.stride + row + r * gap];
      to = out.add ? to + sum : sum;
    }
}

void round_rows_target(const float* x, size_t M, size_t I, RoundedRows rounded) {
  for (size_t m = 0; m < M; ++m)
    for (size_t g = 0; g < rounded.groups; ++g) {
      const size_t begin = std::min(I, g * kWeightGroup), count = std::min(kWeightGroup, I - begin);
      const size_t group = m * rounded.groups + g;
      rounded.scales[group] =
          round_group(x + m * I + begin, count, rounded.values + group * kWeightGroup);
    }
}

void round_row_target(const float* x, size_t I, float* out) {
  for (size_t begin = 0; begin < I; begin += kWeightGroup)
    round_rest(x + begin, std::min(kWeightGroup, I - begin), out + begin);
}

#endif

// All rows of x, up to four at a time: kR kM sums and what they are made of fit into the registers.
template <WeightFormat kFormat, size_t kR>
HWY_INLINE void quantised_all(const RoundedRows& x, size_t M, const LinearOutput& out, size_t row,
                              size_t gap) {
  size_t m = 0;
  for (; m + 4 <= M && kR < 4; m += 4) quantised_tile<kFormat, kR, 4>(x, m, out, row, gap);
  switch (M - m) {
    case 1:
      return quantised_tile<kFormat, kR, 1>(x, m, out, row, gap);
    case 2:
      return quantised_tile<kFormat, kR, 2>(x, m, out, row, gap);
    case 3:
      return quantised_tile<kFormat, kR, 3>(x, m, out, row, gap);
  }
}

// Rows [begin, end) as kR streams through memory.
template <WeightFormat kFormat, size_t kR>
void quantised_streams(const RoundedRows& x, size_t M, const LinearOutput& out, size_t begin,
                       size_t end) {
  const size_t gap = (end - begin) / kR;
  for (size_t row = begin; row < begin + gap; ++row)
    quantised_all<kFormat, kR>(x, M, out, row, gap);
  for (size_t row = begin + kR * gap; row < end; ++row)
    quantised_all<kFormat, 1>(x, M, out, row, 0);
}

void dot_quantised_target(const RoundedRows& x, size_t M, const LinearOutput& out, size_t begin,
                          size_t end) {
  const bool is_int8 = out.weight.format == WeightFormat::kInt8;
  if (M < 4)
    (is_int8 ? quantised_streams<WeightFormat::kInt8, 4>
             : quantised_streams<WeightFormat::kInt4, 4>)(x, M, out, begin, end);
  else
    (is_int8 ? quantised_streams<WeightFormat::kInt8, 3>
             : quantised_streams<WeightFormat::kInt4, 3>)(x, M, out, begin, end);
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(dot_quantised_target);
HWY_EXPORT(round_row_target);
HWY_EXPORT(round_rows_target);

void dot_quantised(const RoundedRows& x, size_t M, const LinearOutput& output, size_t begin,
                   size_t end) {
  HWY_DYNAMIC_DISPATCH(dot_quantised_target)(x, M, output, begin, end);
}

void round_rows(const float* x, size_t M, size_t I, const RoundedRows& rounded) {
  HWY_DYNAMIC_DISPATCH(round_rows_target)(x, M, I, rounded);
}

void round_row(const float* x, size_t I, float* out) {
  HWY_DYNAMIC_DISPATCH(round_row_target)(x, I, out);
}

}  // namespace dp
#endif
