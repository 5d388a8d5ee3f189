#include "ops/swiglu.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "kernels/swiglu.h"
#include "ops/kernel_operator.h"

namespace dp {
namespace {

class SwiGlu final : public KernelOperator {
 public:
  enum Input { kGate, kUp };
  SwiGlu() : KernelOperator("swiglu", 1) {}

  KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>&) const override {
    const at::Tensor y = in.empty(in[kGate].sizes());
    in.run([&](Executor& executor) {
      swiglu_forward(in.data(kGate), in.data(kUp), static_cast<size_t>(y.numel()),
                     y.data_ptr<float>(), executor);
    });
    return {{y.to(in[kGate].scalar_type())}, {}};
  }

  void backward(KernelInputs& in, KernelGradients& gradients) const override {
    float *dgate = gradients.gradient(kGate), *dup = gradients.gradient(kUp);
    in.run([&](Executor& executor) {
      swiglu_backward(in.data(kGate), in.data(kUp), gradients.d_output(0),
                      static_cast<size_t>(in[kGate].numel()), dgate, dup, executor);
    });
  }
};
const SwiGlu kSwiGlu;

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const ArgumentChecks check("swiglu", "gate", gate);
  check.leading_has_rows();
  check.required("up", up, {"", at::DimVector(gate.sizes()), "gate"});
  if (has_kernel(gate)) return kSwiGlu.run({gate, up})[0];
  const at::ScalarType type = compute_type(gate);
  return (at::silu(gate.to(type)) * up.to(type)).to(gate.scalar_type());
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor", TORCH_FN(swiglu));
}

}  // namespace dp
