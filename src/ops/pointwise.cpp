#include "ops/pointwise.h"

namespace dp {

void check_leading(const char* op, const char* name, const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.defined(), op, ": ", name, " is an undefined tensor.");
  TORCH_CHECK_VALUE(x.layout() == at::kStrided, op, ": ", name, " must be a dense tensor, got ",
                    x.layout(), ".");
  TORCH_CHECK_VALUE(at::isFloatingType(x.scalar_type()), op, ": ", name,
                    " must be of floating point, got ", x.scalar_type(), ".");
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.size(-1) >= 1, op, ": ", name,
                    " must have shape [...,D] with D >= 1, got ", x.sizes(), ".");
}

void check_like(const char* op, const char* name, const at::Tensor& x, const char* like_name,
                const at::Tensor& like, bool may_be_float32) {
  TORCH_CHECK_VALUE(x.defined(), op, ": ", name, " is an undefined tensor.");
  TORCH_CHECK_VALUE(x.layout() == at::kStrided, op, ": ", name, " must be a dense tensor, got ",
                    x.layout(), ".");
  TORCH_CHECK_VALUE(x.device() == like.device(), op, ": ", name, " must be on ", like.device(),
                    " like ", like_name, ", got ", x.device(), ".");
  const at::ScalarType got = x.scalar_type(), want = like.scalar_type();
  const bool wider = may_be_float32 && is_16_bit_float(want);
  TORCH_CHECK_VALUE(got == want || (wider && got == at::kFloat), op, ": ", name, " must be ", want,
                    " like ", like_name, wider ? " or Float" : "", ", got ", got, ".");
}

void check_same_sizes(const char* op, const char* name, const at::Tensor& x, const char* like_name,
                      const at::Tensor& like) {
  TORCH_CHECK_VALUE(x.sizes() == like.sizes(), op, ": ", name, " must have shape ", like.sizes(),
                    " like ", like_name, ", got ", x.sizes(), ".");
}

}  // namespace dp
