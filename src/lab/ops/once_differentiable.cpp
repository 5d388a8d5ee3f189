#include "ops/once_differentiable.h"

#include <ATen/ATen.h>

namespace dp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct OnceDifferentiable : torch::autograd::Function<OnceDifferentiable> {
  static variable_list forward(AutogradContext* ctx, at::TensorList /*sources*/,
                               const std::string& why_not,
                               const std::function<variable_list()>& compute) {
    ctx->saved_data["why_not"] = why_not;
    return compute();
  }
  static variable_list backward(AutogradContext* ctx, const variable_list&) {
    TORCH_CHECK(false, ctx->saved_data["why_not"].toStringRef());
  }
};

}  // namespace

variable_list once_differentiable(const variable_list& sources, const std::string& why_not,
                                  const std::function<variable_list()>& compute) {
  variable_list defined;
  for (const at::Tensor& x : sources)
    if (x.defined()) defined.push_back(x);
  return OnceDifferentiable::apply(at::TensorList(defined), why_not, compute);
}

}  // namespace dp
