#include "ops/swiglu.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/swiglu.h"
#include "ops/aten_executor.h"
#include "ops/kernel_tensors.h"
#include "ops/once_differentiable.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor forward(const at::Tensor& gate, const at::Tensor& up) {
  const at::Tensor gate_float = for_kernel(gate), up_float = for_kernel(up);
  const at::Tensor y = at::empty(gate.sizes(), gate_float.options());
  AtenExecutor executor;
  swiglu_forward(data(gate_float), data(up_float), static_cast<size_t>(y.numel()),
                 y.data_ptr<float>(), executor);
  return y.to(gate.scalar_type());
}

variable_list backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& dy) {
  const at::Tensor gate_float = for_kernel(gate), up_float = for_kernel(up);
  const at::Tensor dy_float = for_kernel(dy);
  const at::Tensor dgate = at::empty(gate.sizes(), gate_float.options());
  const at::Tensor dup = at::empty_like(dgate);
  AtenExecutor executor;
  swiglu_backward(data(gate_float), data(up_float), data(dy_float),
                  static_cast<size_t>(dgate.numel()), dgate.data_ptr<float>(),
                  dup.data_ptr<float>(), executor);
  return {dgate.to(gate.scalar_type()), dup.to(up.scalar_type())};
}

struct SwiGluFunction : torch::autograd::Function<SwiGluFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up) {
    ctx->save_for_backward({gate, up});
    return dp::forward(gate, up);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    return once_differentiable(
        {saved[0], saved[1], d_outputs[0]},
        "swiglu: float32 can be differentiated only once; for second derivatives pass float64.",
        [&] { return dp::backward(saved[0], saved[1], d_outputs[0]); });
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  check_leading("swiglu", "gate", gate);
  check_like("swiglu", "up", up, "gate", gate);
  check_same_sizes("swiglu", "up", up, "gate", gate);
  if (!has_kernel(gate)) {
    const at::ScalarType type = compute_type(gate);
    return (at::silu(gate.to(type)) * up.to(type)).to(gate.scalar_type());
  }
  return wants_gradient({gate, up}) ? SwiGluFunction::apply(gate, up) : forward(gate, up);
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor", TORCH_FN(swiglu));
}

}  // namespace dp
