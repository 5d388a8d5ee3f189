// Matrix products for training and, with few rows, for decoding at the speed of memory.
#pragma once
#include <ATen/core/Tensor.h>

namespace dp {

/// y [...,O] = x weight^T for x [...,I] and weight [O,I] of the same dtype and device; on the CPU also a
/// bfloat16 weight with a float32 x, computed in float32. Few rows without a gradient take a SIMD kernel
/// that reads the weight once; all else is torch's matrix product, and differentiable.
/// Throws c10::ValueError.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);

}  // namespace dp
