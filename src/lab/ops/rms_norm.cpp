#include "ops/rms_norm.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <cmath>

#include "base/check_input.h"
#include "kernels/rms_norm.h"
#include "ops/kernel_operator.h"

namespace dp {
namespace {

// With a gate or without: as two operators, because errors name them.
class RmsNorm final : public KernelOperator {
 public:
  enum Input { kX, kWeight, kGate };
  enum Option { kEps };
  explicit RmsNorm(const char* name) : KernelOperator(name, 1) {}

  KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>&) const override {
    const at::Tensor y = in.empty(in[kX].sizes());
    in.run([&](Executor& executor) {
      rms_norm_forward(kernel_inputs(in), y.data_ptr<float>(), executor);
    });
    return {{y.to(in[kX].scalar_type())}, {}};
  }

  void backward(KernelInputs& in, KernelGradients& g) const override {
    RmsNormGradients out;
    out.dy = g.d_output(0), out.dx = g.gradient(kX);
    out.dweight = g.gradient(kWeight), out.dgate = g.gradient(kGate);
    in.run([&](Executor& executor) { rms_norm_backward(kernel_inputs(in), out, executor); });
  }

 private:
  static RmsNormInputs kernel_inputs(KernelInputs& in) {
    RmsNormInputs inputs;
    inputs.D = in.length(kX, -1), inputs.rows = static_cast<size_t>(in[kX].numel()) / inputs.D;
    inputs.eps = in.option(kEps);
    inputs.x = in.data(kX), inputs.weight = in.data(kWeight), inputs.gate = in.data(kGate);
    return inputs;
  }
};
const RmsNorm kRmsNorm("rms_norm"), kGatedRmsNorm("gated_rms_norm");

// `gate` is undefined without one.
at::Tensor run_rms_norm(const RmsNorm& op, const at::Tensor& x, const at::Tensor& gate,
                        const at::Tensor& weight, double eps) {
  const ArgumentChecks check(op.name().c_str(), "x", x);
  check.leading_has_rows();
  check.required("weight", weight, {"D", {x.size(-1)}, "x"}, DtypeRule::kSameOrFloat32);
  DP_CHECK_INPUT(eps > 0 && std::isfinite(eps), op.name(),
                 ": eps must be positive and finite, got ", eps, ".");
  check.optional("gate", gate, {"", at::DimVector(x.sizes()), "x"}, DtypeRule::kSame);
  if (has_kernel(x)) return op.run({x, weight, gate}, {eps})[0];
  const at::ScalarType type = compute_type(x);
  const at::Tensor wide = x.to(type);
  at::Tensor y = wide * at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + eps) * weight.to(type);
  if (gate.defined()) y = y * at::silu(gate.to(type));
  return y.to(x.scalar_type());
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return run_rms_norm(kRmsNorm, x, at::Tensor(), weight, eps);
}

at::Tensor gated_rms_norm(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight,
                          double eps) {
  DP_CHECK_INPUT(gate.defined(), "gated_rms_norm: gate is an undefined tensor.");
  return run_rms_norm(kGatedRmsNorm, x, gate, weight, eps);
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor", TORCH_FN(rms_norm));
  m.def("gated_rms_norm(Tensor x, Tensor gate, Tensor weight, float eps) -> Tensor",
        TORCH_FN(gated_rms_norm));
}

}  // namespace dp
