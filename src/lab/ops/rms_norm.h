// Root-mean-square normalisation over the last dimension, plain and with a SiLU gate.
#pragma once
#include <ATen/core/Tensor.h>

namespace dp {

/// x / sqrt(mean(x^2) + eps) weight, the mean over the last dimension.
///   x       [...,D], any strides
///   weight  [D], of x's dtype, or float32 beside a 16-bit x
///   eps     > 0
/// float32 on CPU takes SIMD kernels, bfloat16 and float16 too, computed in float32; these are
/// differentiable once. Other dtypes and devices take torch operators. Throws InputError.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

/// rms_norm(x, weight, eps) silu(gate); gate is shaped like x.
at::Tensor gated_rms_norm(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight,
                          double eps);

}  // namespace dp
