// Matrix products for training and, with few rows, for decoding at the speed of memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace dp {

/// The way to compute a product. It never depends on whether gradients are recorded, so that training and inference
/// compute the same bits.
enum class LinearMode {
  kByShape,  // float32 with few rows, and bfloat16 weights: SIMD kernels that read the weight once, differentiable once
  kTorch,    // torch's matrix product, differentiable any number of times
};

/// y [...,O] = x weight^T for x [...,I] and weight [O,I] of the same dtype and device; on the CPU also a
/// bfloat16 weight with a float32 x, computed in float32. What no kernel takes is torch's matrix product.
/// Throws InputError.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  LinearMode mode = LinearMode::kByShape);

}  // namespace dp
