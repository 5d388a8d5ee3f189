// Random matrices of weights in every format, for tests.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "kernels/weight_matrix.h"

namespace dp {

inline constexpr WeightFormat kEveryFormat[] = {WeightFormat::kFloat32, WeightFormat::kBFloat16,
                                                WeightFormat::kInt8, WeightFormat::kInt4};

inline std::string format_name(WeightFormat format) {
  return std::vector<std::string>{"float32", "bfloat16", "int8",
                                  "int4"}[static_cast<size_t>(format)];
}

inline uint16_t bfloat16_bits(float x) {
  uint32_t word;
  std::memcpy(&word, &x, sizeof(word));
  return static_cast<uint16_t>(word >> 16);
}

/// Its data begins one element after an aligned place.
class RandomWeights {
 public:
  RandomWeights(WeightFormat format, size_t rows, size_t columns, unsigned seed = 1) {
    matrix_ = {format, rows, columns, nullptr, nullptr};
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    const size_t values = rows * columns;
    if (format == WeightFormat::kFloat32) {
      floats_.resize(values + 1);
      for (float& x : floats_) x = normal(rng);
      matrix_.data = floats_.data() + 1;
    } else if (format == WeightFormat::kBFloat16) {
      halves_.resize(values + 1);
      for (uint16_t& x : halves_) x = bfloat16_bits(normal(rng));
      matrix_.data = halves_.data() + 1;
    } else {
      bytes_.resize(rows * matrix_.row_bytes() + 1);
      for (uint8_t& x : bytes_) x = static_cast<uint8_t>(rng());
      matrix_.data = bytes_.data() + 1;
      halves_.resize(rows * matrix_.groups());
      for (uint16_t& x : halves_) x = bfloat16_bits(normal(rng) / 64);
      matrix_.scales = halves_.data();
    }
  }

  const WeightMatrix& matrix() const { return matrix_; }

 private:
  WeightMatrix matrix_;
  std::vector<float> floats_;
  std::vector<uint16_t> halves_;
  std::vector<uint8_t> bytes_;
};

}  // namespace dp
