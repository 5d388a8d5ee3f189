// Products of rows of activations with matrices of weights: y = x W^T. M rows of x, I inputs, O outputs.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "base/executor.h"
#include "kernels/aligned_buffer.h"
#include "kernels/weight_matrix.h"

namespace dp {

/// One of the matrices that x is multiplied with.
struct LinearOutput {
  WeightMatrix weight;  // [O,I]
  float* y = nullptr;   // [M,O], rows `stride` floats apart
  size_t stride = 0;
  bool add = false;  // y += x W^T
};

/// Memory that products use and keep for the next one. One per thread that calls linear().
struct LinearScratch {
  AlignedBuffer panels, rounded_panels, rounded;
  std::vector<size_t> cuts;
};

/// y[m,o] = sum_i x[m,i] weight[o,i] for every output, x [M,I], summed in float32. Beside int8 and int4 weights x is
/// rounded to 16 bits by groups (activation_rounding.h), for every M alike. Weights are read where they lie: once for up
/// to four rows of x; for more than kSmallBatch they are widened to float32 by blocks that stay in the cache. Every
/// sum is formed in an order that depends on neither the threads nor the other outputs, and on M only by
/// M > kSmallBatch. Allocates only where a product is larger than all before it.
void linear(const float* x, size_t M, size_t I, std::span<const LinearOutput> outputs,
            LinearScratch& scratch, Executor& executor);

inline constexpr size_t kSmallBatch = 8;

/// Row `row` of the matrix as float32, I floats.
void widen_row(const WeightMatrix& weight, size_t row, float* out);

}  // namespace dp
