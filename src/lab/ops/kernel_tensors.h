// Tensors on their way between torch's graph and the kernels.
#pragma once
#include <ATen/ATen.h>

namespace dp {

/// Contiguous float32, outside the graph of gradients. Undefined stays undefined.
inline at::Tensor for_kernel(const at::Tensor& x) {
  return x.defined() ? x.detach().to(at::kFloat).contiguous().resolve_neg() : x;
}

/// Of the same shape, for a kernel to fill.
inline at::Tensor empty_float(const at::Tensor& x) {
  return at::empty(x.sizes(), x.options().dtype(at::kFloat));
}

/// As an autograd Function takes it; undefined becomes none.
inline c10::optional<at::Tensor> optional(const at::Tensor& x) {
  return x.defined() ? c10::make_optional(x) : c10::nullopt;
}

inline const float* data(const at::Tensor& x) {
  return x.defined() ? x.data_ptr<float>() : nullptr;
}

}  // namespace dp
