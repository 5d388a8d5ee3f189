// What the operators share: who takes the kernels, and the checks of arguments. Every mistake is one
// sentence in a c10::ValueError: which operator, which tensor, what was expected, what came.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace dp {

inline bool is_16_bit_float(at::ScalarType type) {
  return type == at::kBFloat16 || type == at::kHalf;
}

/// The dtype of the arithmetic: float32 for the 16-bit types.
inline at::ScalarType compute_type(const at::Tensor& x) {
  return is_16_bit_float(x.scalar_type()) ? at::kFloat : x.scalar_type();
}

/// CPU tensors that are computed in float32; all others take a form composed of torch operators.
inline bool has_kernel(const at::Tensor& x) {
  return x.device().is_cpu() && compute_type(x) == at::kFloat;
}

inline bool wants_gradient(std::initializer_list<at::Tensor> tensors) {
  if (!at::GradMode::is_enabled()) return false;
  for (const at::Tensor& x : tensors)
    if (x.defined() && x.requires_grad()) return true;
  return false;
}

/// The names Python users know; at::toString says Float and Double.
std::string dtype_name(at::ScalarType type);

/// The first argument, by which the others go: floating point, dense, of at least one dimension.
void check_leading(const char* op, const char* name, const at::Tensor& x);

/// Dtype and device of x are those of `like`; beside a 16-bit `like`, float32 will do for weights.
void check_like(const char* op, const char* name, const at::Tensor& x, const char* like_name,
                const at::Tensor& like, bool may_be_float32 = false);

/// x has the sizes of `like`.
void check_same_sizes(const char* op, const char* name, const at::Tensor& x, const char* like_name,
                      const at::Tensor& like);

/// Where packed sequences begin and end, [S+1]: x [B,T,...] must be a single row of T tokens, cu_seqlens
/// go from 0 to T without decreasing.
std::vector<int64_t> checked_offsets(const char* op, const at::Tensor& cu_seqlens, const char* name,
                                     const at::Tensor& x);

}  // namespace dp
