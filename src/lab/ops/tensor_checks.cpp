#include "ops/tensor_checks.h"

namespace dp {

std::string dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    default:
      return at::toString(type);
  }
}

void check_leading(const char* op, const char* name, const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.defined(), op, ": ", name, " is an undefined tensor.");
  TORCH_CHECK_VALUE(x.layout() == at::kStrided, op, ": ", name,
                    " must be a dense tensor, got layout ", x.layout(), ".");
  TORCH_CHECK_VALUE(at::isFloatingType(x.scalar_type()), op, ": ", name,
                    " must be of floating point, got ", dtype_name(x.scalar_type()), ".");
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.size(-1) >= 1, op, ": ", name,
                    " must have shape [...,D] with D >= 1, got ", x.sizes(), ".");
}

void check_like(const char* op, const char* name, const at::Tensor& x, const char* like_name,
                const at::Tensor& like, bool may_be_float32) {
  TORCH_CHECK_VALUE(x.defined(), op, ": ", name, " is an undefined tensor.");
  TORCH_CHECK_VALUE(x.layout() == at::kStrided, op, ": ", name,
                    " must be a dense tensor, got layout ", x.layout(), ".");
  TORCH_CHECK_VALUE(x.device() == like.device(), op, ": ", name, " must be on ", like.device(),
                    " like ", like_name, ", got ", x.device(), ".");
  const at::ScalarType got = x.scalar_type(), want = like.scalar_type();
  const bool wider = may_be_float32 && is_16_bit_float(want);
  TORCH_CHECK_VALUE(got == want || (wider && got == at::kFloat), op, ": ", name, " must be ",
                    dtype_name(want), " like ", like_name, wider ? " or float32" : "", ", got ",
                    dtype_name(got), ".");
}

void check_same_sizes(const char* op, const char* name, const at::Tensor& x, const char* like_name,
                      const at::Tensor& like) {
  TORCH_CHECK_VALUE(x.sizes() == like.sizes(), op, ": ", name, " must have shape ", like.sizes(),
                    " like ", like_name, ", got ", x.sizes(), ".");
}

std::vector<int64_t> checked_offsets(const char* op, const at::Tensor& cu_seqlens, const char* name,
                                     const at::Tensor& x) {
  const at::ScalarType type = cu_seqlens.scalar_type();
  TORCH_CHECK_VALUE(type == at::kInt || type == at::kLong, op,
                    ": cu_seqlens must be int32 or int64, got ", dtype_name(type), ".");
  TORCH_CHECK_VALUE(cu_seqlens.dim() == 1 && cu_seqlens.size(0) >= 1, op,
                    ": cu_seqlens must have shape [S+1] for S sequences, got ", cu_seqlens.sizes(),
                    ".");
  TORCH_CHECK_VALUE(cu_seqlens.device().is_cpu() || cu_seqlens.device() == x.device(), op,
                    ": cu_seqlens must be on cpu or on ", x.device(), " like ", name, ", got ",
                    cu_seqlens.device(), ".");
  TORCH_CHECK_VALUE(x.size(0) == 1, op, ": B must be 1 with cu_seqlens, got ", name, " of shape ",
                    x.sizes(), "; lay the sequences end to end along T.");
  const at::Tensor on_cpu = cu_seqlens.detach().to(at::kCPU, at::kLong).contiguous();
  std::vector<int64_t> offsets(on_cpu.data_ptr<int64_t>(),
                               on_cpu.data_ptr<int64_t>() + on_cpu.size(0));
  TORCH_CHECK_VALUE(offsets[0] == 0, op, ": cu_seqlens must start at 0, got ", offsets[0], ".");
  for (size_t i = 1; i < offsets.size(); ++i)
    TORCH_CHECK_VALUE(offsets[i - 1] <= offsets[i], op, ": cu_seqlens must not decrease, got ",
                      offsets[i - 1], " then ", offsets[i], " at index ", i, ".");
  TORCH_CHECK_VALUE(offsets.back() == x.size(1), op, ": cu_seqlens must end at T = ", x.size(1),
                    " to match ", name, ", got ", offsets.back(), ".");
  return offsets;
}

}  // namespace dp
