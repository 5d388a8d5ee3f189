// Tensors as the kernels read them.
#pragma once
#include <ATen/ATen.h>

namespace dp {

/// Contiguous float32, outside the graph of gradients. Undefined stays undefined.
inline at::Tensor for_kernel(const at::Tensor& x) {
  return x.defined() ? x.detach().to(at::kFloat).contiguous().resolve_neg() : x;
}

inline const float* data(const at::Tensor& x) {
  return x.defined() ? x.data_ptr<float>() : nullptr;
}

}  // namespace dp
