// A group of weights as vectors of float32, from each format.
#if defined(DP_KERNELS_WEIGHT_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_WEIGHT_FORMATS_INL_H_
#undef DP_KERNELS_WEIGHT_FORMATS_INL_H_
#else
#define DP_KERNELS_WEIGHT_FORMATS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/weight_matrix.h"

#ifndef DP_UNROLL_WEIGHTS
#define DP_UNROLL_WEIGHTS _Pragma("GCC unroll 16")
#endif

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {

using WeightLanes = hwy::HWY_NAMESPACE::CappedTag<float, 16>;
using WeightVec = hwy::HWY_NAMESPACE::Vec<WeightLanes>;
constexpr size_t kWeightVectors =
    kWeightGroup / hwy::HWY_NAMESPACE::MaxLanes(WeightLanes());  // of a group
using WeightGroupVecs = WeightVec[kWeightVectors];

/// Groups whose scales are widened at once.
constexpr size_t kScaleBlock = 16;

/// A row of a matrix. load(g, out) gives its g-th whole group; what is left of I beyond those is for weight_at().
/// enter(g, count) comes before the loads of groups g .. g + count - 1, count <= kScaleBlock. What lies kAhead bytes
/// further on is fetched too, for products that are as fast as memory.
template <WeightFormat kFormat>
class WeightRow;

constexpr size_t kAhead = 2048;

HWY_INLINE void fetch_ahead(const void* begin, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64)
    __builtin_prefetch(static_cast<const char*>(begin) + kAhead + i);
}

/// bfloat16 scales of some groups in float32.
class WidenedScales {
 public:
  HWY_INLINE void enter(const uint16_t* scales, size_t first, size_t count) {
    namespace hn = hwy::HWY_NAMESPACE;
    const WeightLanes d;
    const hn::Rebind<uint32_t, WeightLanes> words;
    const hn::Rebind<uint16_t, WeightLanes> halves;
    const size_t lanes = hn::Lanes(d);
    scales += first_ = first;
    size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto bits = hn::PromoteTo(words, hn::LoadU(halves, scales + i));
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, values_ + i);
    }
    for (; i < count; ++i) values_[i] = from_bfloat16(scales[i]);
  }
  HWY_INLINE WeightVec operator[](size_t g) const {
    return hwy::HWY_NAMESPACE::Set(WeightLanes(), values_[g - first_]);
  }

 private:
  size_t first_;
  alignas(64) float values_[kScaleBlock] = {};
};

template <>
class WeightRow<WeightFormat::kFloat32> {
 public:
  WeightRow() = default;
  WeightRow(const WeightMatrix& w, size_t row)
      : data_(static_cast<const float*>(w.data) + row * w.columns) {}
  HWY_INLINE void load(size_t g, WeightGroupVecs& out) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const WeightLanes d;
    fetch_ahead(data_ + g * kWeightGroup, kWeightGroup * sizeof(float));
    DP_UNROLL_WEIGHTS for (size_t v = 0; v < kWeightVectors; ++v) out[v] =
        hn::LoadU(d, data_ + g * kWeightGroup + v * hn::Lanes(d));
  }
  HWY_INLINE void enter(size_t, size_t) const {}

 private:
  const float* data_;
};

template <>
class WeightRow<WeightFormat::kBFloat16> {
 public:
  WeightRow() = default;
  WeightRow(const WeightMatrix& w, size_t row)
      : data_(static_cast<const uint16_t*>(w.data) + row * w.columns) {}
  HWY_INLINE void load(size_t g, WeightGroupVecs& out) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const WeightLanes d;
    const hn::Rebind<uint32_t, WeightLanes> words;
    const hn::Rebind<uint16_t, WeightLanes> halves;
    fetch_ahead(data_ + g * kWeightGroup, kWeightGroup * sizeof(uint16_t));
    DP_UNROLL_WEIGHTS for (size_t v = 0; v < kWeightVectors; ++v) {
      const auto bits = hn::LoadU(halves, data_ + g * kWeightGroup + v * hn::Lanes(d));
      out[v] = hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, bits)));
    }
  }
  HWY_INLINE void enter(size_t, size_t) const {}

 private:
  const uint16_t* data_;
};

/// int8 in float32, times a scale.
HWY_INLINE WeightVec scaled_bytes(const int8_t* p, WeightVec scale) {
  namespace hn = hwy::HWY_NAMESPACE;
  const WeightLanes d;
  const hn::Rebind<int32_t, WeightLanes> words;
  const hn::Rebind<int8_t, WeightLanes> bytes;
  return hn::Mul(hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(bytes, p))), scale);
}

template <>
class WeightRow<WeightFormat::kInt8> {
 public:
  WeightRow() = default;
  WeightRow(const WeightMatrix& w, size_t row)
      : data_(static_cast<const int8_t*>(w.data) + row * w.columns),
        scales_(w.scales + row * w.groups()) {}
  HWY_INLINE void load(size_t g, WeightGroupVecs& out) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const WeightLanes d;
    const WeightVec scale = widened_[g];
    DP_UNROLL_WEIGHTS for (size_t v = 0; v < kWeightVectors; ++v) out[v] =
        scaled_bytes(data_ + g * kWeightGroup + v * hn::Lanes(d), scale);
  }
  HWY_INLINE void enter(size_t g, size_t count) {
    fetch_ahead(data_ + g * kWeightGroup, count * kWeightGroup);
    widened_.enter(scales_, g, count);
  }

 private:
  const int8_t* data_;
  const uint16_t* scales_;
  WidenedScales widened_;
};

template <>
class WeightRow<WeightFormat::kInt4> {
 public:
  WeightRow() = default;
  WeightRow(const WeightMatrix& w, size_t row)
      : data_(static_cast<const uint8_t*>(w.data) + row * w.row_bytes()),
        scales_(w.scales + row * w.groups()) {}

  HWY_INLINE void load(size_t g, WeightGroupVecs& out) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const WeightLanes d;
    const WeightVec scale = widened_[g];
    const uint8_t* p = data_ + g * kWeightGroup / 2;
    if constexpr (kWeightVectors == 2) {  // 16 lanes: the levels are one vector
      const hn::Rebind<int32_t, WeightLanes> words;
      const hn::Rebind<uint8_t, WeightLanes> bytes;
      const hn::Rebind<int8_t, WeightLanes> signed_bytes;
      const WeightVec levels = hn::Mul(
          hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(signed_bytes, kInt4Levels))), scale);
      const auto pairs = hn::PromoteTo(words, hn::LoadU(bytes, p));
      const auto low = hn::And(pairs, hn::Set(words, 15)), high = hn::ShiftRight<4>(pairs);
      out[0] = hn::TableLookupLanes(levels, hn::IndicesFromVec(d, low));
      out[kWeightVectors - 1] = hn::TableLookupLanes(levels, hn::IndicesFromVec(d, high));
    } else {
      alignas(16) int8_t values[kWeightGroup];
      decode(p, values);
      DP_UNROLL_WEIGHTS for (size_t v = 0; v < kWeightVectors; ++v) out[v] =
          scaled_bytes(values + v * hn::Lanes(d), scale);
    }
  }
  HWY_INLINE void enter(size_t g, size_t count) {
    fetch_ahead(data_ + g * kWeightGroup / 2, count * kWeightGroup / 2);
    widened_.enter(scales_, g, count);
  }

 private:
  static HWY_INLINE void decode(const uint8_t* p, int8_t* values) {
#if HWY_TARGET == HWY_SCALAR
    for (size_t j = 0; j < 16; ++j) {
      values[j] = kInt4Levels[p[j] & 15];
      values[j + 16] = kInt4Levels[p[j] >> 4];
    }
#else
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::FixedTag<uint8_t, 16> bytes;
    const hn::FixedTag<int8_t, 16> signed_bytes;
    const auto levels = hn::BitCast(bytes, hn::LoadU(signed_bytes, kInt4Levels));
    const auto pairs = hn::LoadU(bytes, p);
    const auto low = hn::And(pairs, hn::Set(bytes, 15)), high = hn::ShiftRight<4>(pairs);
    hn::Store(hn::BitCast(signed_bytes, hn::TableLookupBytes(levels, low)), signed_bytes, values);
    hn::Store(hn::BitCast(signed_bytes, hn::TableLookupBytes(levels, high)), signed_bytes,
              values + 16);
#endif
  }

  const uint8_t* data_;
  const uint16_t* scales_;
  WidenedScales widened_;
};

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DP_KERNELS_WEIGHT_FORMATS_INL_H_
