// Products of rows of activations with matrices of which most weights are 0: y = x W^T. M rows of x, I inputs, O outputs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/executor.h"
#include "kernels/aligned_buffer.h"
#include "kernels/weight_matrix.h"

namespace dp {

/// The weights other than 0, row by row.
struct SparseMatrix {
  size_t rows = 0, columns = 0;   // O, I
  std::vector<uint32_t> outputs;  // the rows that have any, ascending
  std::vector<uint32_t> inputs;   // the columns that have any, ascending
  std::vector<uint32_t> begin;    // [outputs + 1]: where each row begins in the following two
  std::vector<uint32_t> at;       // positions in `inputs`, ascending in each row
  std::vector<float> values;

  /// Of matrices of float32 or bfloat16 that lie below one another.
  explicit SparseMatrix(std::span<const WeightMatrix> parts);
  size_t bytes() const { return values.size() * (sizeof(float) + sizeof(uint32_t)); }
};

/// y[m,o] = sum_i x[m,i] W[o,i], or is increased by that; x [M,I], y [M,O]. A sum is formed in the order of its
/// columns, with whatever M. Allocates only where a product is larger than all before it.
void sparse_linear(const float* x, size_t M, const SparseMatrix& weight, float* y, bool add,
                   AlignedBuffer& scratch, Executor& executor);

}  // namespace dp
