#include "ops/rms_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>

#include "kernels/rms_norm.h"
#include "ops/aten_executor.h"
#include "ops/kernel_tensors.h"
#include "ops/once_differentiable.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// RmsNormInputs and the memory it points into. The gate may be undefined.
class RmsNormTensors {
 public:
  RmsNormTensors(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight, double eps)
      : x_(for_kernel(x)), gate_(for_kernel(gate)), weight_(for_kernel(weight)) {
    inputs_.D = static_cast<size_t>(x.size(-1));
    inputs_.rows = static_cast<size_t>(x.numel()) / inputs_.D;
    inputs_.eps = eps;
    inputs_.x = data(x_), inputs_.gate = data(gate_), inputs_.weight = data(weight_);
  }
  RmsNormTensors(const RmsNormTensors&) = delete;
  RmsNormTensors& operator=(const RmsNormTensors&) = delete;

  const RmsNormInputs& get() const { return inputs_; }

 private:
  at::Tensor x_, gate_, weight_;
  RmsNormInputs inputs_;
};

at::Tensor forward(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight,
                   double eps) {
  const at::Tensor y = empty_float(x);
  AtenExecutor executor;
  rms_norm_forward(RmsNormTensors(x, gate, weight, eps).get(), y.data_ptr<float>(), executor);
  return y.to(x.scalar_type());
}

// Gradients of x, gate and weight; the gate's is undefined without a gate.
variable_list backward(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight,
                       double eps, const at::Tensor& dy) {
  const at::Tensor dy_float = for_kernel(dy), dx = empty_float(x), dweight = empty_float(weight);
  const at::Tensor dgate = gate.defined() ? empty_float(gate) : at::Tensor();
  RmsNormGradients gradients;
  gradients.dy = data(dy_float);
  gradients.dx = dx.data_ptr<float>();
  gradients.dweight = dweight.data_ptr<float>();
  if (dgate.defined()) gradients.dgate = dgate.data_ptr<float>();
  AtenExecutor executor;
  rms_norm_backward(RmsNormTensors(x, gate, weight, eps).get(), gradients, executor);
  return {dx.to(x.scalar_type()), dgate.defined() ? dgate.to(gate.scalar_type()) : dgate,
          dweight.to(weight.scalar_type())};
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const c10::optional<at::Tensor>& gate, const at::Tensor& weight,
                            double eps) {
    const at::Tensor some_gate = gate.value_or(at::Tensor());
    ctx->save_for_backward({x, some_gate, weight});
    ctx->saved_data["eps"] = eps;
    return dp::forward(x, some_gate, weight, eps);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    const bool gated = saved[1].defined();
    variable_list sources = saved;
    sources.push_back(d_outputs[0]);
    // Undefined tensors cannot pass through the graph of gradients: without a gate there are two.
    const variable_list grads = once_differentiable(
        sources,
        gated ? "gated_rms_norm: float32 can be differentiated only once; for second derivatives "
                "pass float64."
              : "rms_norm: float32 can be differentiated only once; for second derivatives pass "
                "float64.",
        [&] {
          variable_list all = dp::backward(saved[0], saved[1], saved[2],
                                           ctx->saved_data["eps"].toDouble(), d_outputs[0]);
          if (!gated) all.erase(all.begin() + 1);
          return all;
        });
    return {grads[0], gated ? grads[1] : at::Tensor(), grads.back(), at::Tensor()};
  }
};

at::Tensor composed(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight,
                    double eps) {
  const at::ScalarType type = compute_type(x);
  const at::Tensor wide = x.to(type);
  at::Tensor y = wide * at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + eps) * weight.to(type);
  if (gate.defined()) y = y * at::silu(gate.to(type));
  return y.to(x.scalar_type());
}

void check(const char* op, const at::Tensor& x, const at::Tensor& weight, double eps) {
  check_leading(op, "x", x);
  check_like(op, "weight", weight, "x", x, /*may_be_float32=*/true);
  TORCH_CHECK_VALUE(weight.dim() == 1 && weight.size(0) == x.size(-1), op,
                    ": weight must have shape [D] = [", x.size(-1), "] to match x, got ",
                    weight.sizes(), ".");
  TORCH_CHECK_VALUE(eps > 0 && std::isfinite(eps), op, ": eps must be positive and finite, got ",
                    eps, ".");
}

at::Tensor run(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight, double eps) {
  if (!has_kernel(x)) return composed(x, gate, weight, eps);
  if (!wants_gradient({x, gate, weight})) return forward(x, gate, weight, eps);
  return RmsNormFunction::apply(x, optional(gate), weight, eps);
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  check("rms_norm", x, weight, eps);
  return run(x, at::Tensor(), weight, eps);
}

at::Tensor gated_rms_norm(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight,
                          double eps) {
  check("gated_rms_norm", x, weight, eps);
  check_like("gated_rms_norm", "gate", gate, "x", x);
  check_same_sizes("gated_rms_norm", "gate", gate, "x", x);
  return run(x, gate, weight, eps);
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor", TORCH_FN(rms_norm));
  m.def("gated_rms_norm(Tensor x, Tensor gate, Tensor weight, float eps) -> Tensor",
        TORCH_FN(gated_rms_norm));
}

}  // namespace dp
