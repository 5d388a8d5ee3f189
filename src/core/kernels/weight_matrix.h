// A matrix of weights in one of four formats, where it lies in memory. O rows (outputs), I columns (inputs).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dp {

enum class WeightFormat {
  kFloat32,
  kBFloat16,
  kInt8,  // [O,I] int8: weight = scale value
  kInt4,  // [O,16 groups] bytes: weight = scale kInt4Levels[code]. Byte j of a group holds the code of its column
          // j in the lower half and of column j + 16 in the upper half
};

/// Columns that share a scale, in int8 and int4. The last group of a row may be shorter; the codes of the columns
/// that an int4 group lacks are 8.
inline constexpr size_t kWeightGroup = 32;

/// What the codes of int4 stand for. Weights of a group are close to normally distributed; for those these levels,
/// denser around 0, leave a fifth less squared error than equal steps (0.073 of the weights' deviation, not 0.080).
inline constexpr int8_t kInt4Levels[16] = {-127, -101, -80, -63, -48, -34, -22, -11,
                                           0,    11,   23,  36,  50,  66,  84,  108};

struct WeightMatrix {
  WeightFormat format = WeightFormat::kFloat32;
  size_t rows = 0, columns = 0;      // O, I
  const void* data = nullptr;        // row by row, aligned to one element
  const uint16_t* scales = nullptr;  // [O,groups] bfloat16 bits; int8 and int4 only

  size_t groups() const { return (columns + kWeightGroup - 1) / kWeightGroup; }
  /// Bytes of a row, without scales.
  size_t row_bytes() const {
    switch (format) {
      case WeightFormat::kFloat32:
        return columns * sizeof(float);
      case WeightFormat::kBFloat16:
        return columns * sizeof(uint16_t);
      case WeightFormat::kInt8:
        return columns;
      case WeightFormat::kInt4:
        return groups() * kWeightGroup / 2;
    }
    return 0;
  }
  /// What a product reads.
  size_t bytes() const {
    const bool scaled = format == WeightFormat::kInt8 || format == WeightFormat::kInt4;
    return rows * (row_bytes() + (scaled ? groups() * sizeof(uint16_t) : 0));
  }
};

inline float from_bfloat16(uint16_t bits) {
  const uint32_t word = uint32_t{bits} << 16;
  float x;
  std::memcpy(&x, &word, sizeof(x));
  return x;
}

/// One weight: the definition of the formats.
inline float weight_at(const WeightMatrix& w, size_t row, size_t column) {
  const auto* bytes = static_cast<const uint8_t*>(w.data) + row * w.row_bytes();
  const size_t group = column / kWeightGroup, place = column % kWeightGroup;
  const auto scale = [&] { return from_bfloat16(w.scales[row * w.groups() + group]); };
  switch (w.format) {
    case WeightFormat::kFloat32:
      return reinterpret_cast<const float*>(bytes)[column];
    case WeightFormat::kBFloat16:
      return from_bfloat16(reinterpret_cast<const uint16_t*>(bytes)[column]);
    case WeightFormat::kInt8:
      return scale() * static_cast<float>(reinterpret_cast<const int8_t*>(bytes)[column]);
    case WeightFormat::kInt4: {
      const uint8_t pair = bytes[group * kWeightGroup / 2 + place % 16];
      return scale() * static_cast<float>(kInt4Levels[place < 16 ? pair & 15 : pair >> 4]);
    }
  }
  return 0;
}

}  // namespace dp
