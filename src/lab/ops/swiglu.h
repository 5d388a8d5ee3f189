// The gated unit of a feed-forward block.
#pragma once
#include <ATen/core/Tensor.h>

namespace dp {

/// silu(gate) up, element by element; gate and up have the same shape and dtype, any strides.
/// float32 on CPU takes SIMD kernels, bfloat16 and float16 too, computed in float32; these are
/// differentiable once. Other dtypes and devices take torch operators. Throws InputError.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace dp
