// Weights in eight and four bits (docs/checkpoints.md, "Quantised weights"). O rows, I columns.
#pragma once
#include <cstdint>
#include <filesystem>
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

/// Writes the model of directory `from` to directory `to` with its matrices in kInt8 or kInt4; in the latter case
/// embeddings and head are in kInt8. The projections to beta and to the forget gate, convolutions, norms and biases
/// stay as they are. Throws InputError if `from` is no model that the runtime runs, or quantised already.
void quantise_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to,
                         WeightFormat format, Executor& executor);

}  // namespace dp::runtime
