// Weights in eight and four bits (docs/checkpoints.md, "Quantised weights"). O rows, I columns.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/executor.h"
#include "kernels/weight_matrix.h"

namespace dp::runtime {

/// A matrix in kInt8 or kInt4, and the memory it lies in.
struct QuantisedMatrix {
  std::vector<uint8_t> codes;    // [O,row_bytes]
  std::vector<uint16_t> scales;  // [O,groups]

  WeightMatrix matrix(WeightFormat format, size_t rows, size_t columns) const {
    return {format, rows, columns, codes.data(), scales.data()};
  }
};

/// weights [rows,columns], all finite. Scale and codes of each group are those with the least squared error among
/// some scales. The same on every machine and with any number of threads.
QuantisedMatrix quantise(std::span<const float> weights, size_t rows, size_t columns,
                         WeightFormat format, Executor& executor);

}  // namespace dp::runtime
