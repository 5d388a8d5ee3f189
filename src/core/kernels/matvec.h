// Products of a matrix with a few vectors, which cost one pass over the matrix: what decoding does.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/executor.h"

namespace dp {

/// y[m,o] = sum_i x[m,i] weight[o,i] in float32, for x [M,I], weight [O,I] and y [M,O], all dense.
/// Weights need only the alignment of one element. A row of y depends on its own row of x and not on M.
void matvec(const float* x, const float* weight, size_t M, size_t I, size_t O, float* y,
            Executor& executor);
/// The same with weights in bfloat16, given as their bits.
void matvec(const float* x, const uint16_t* weight, size_t M, size_t I, size_t O, float* y,
            Executor& executor);

}  // namespace dp
