// The SIMD kernels behind torch tensors.
#include <ATen/ATen.h>

#include "kernels/delta_product.h"
#include "ops/delta_product_arguments.h"
#include "ops/kernel_operator.h"

namespace dp {
namespace {

class DeltaProduct final : public KernelOperator {
 public:
  enum Input { kQ, kK, kV, kBeta, kLogGate, kState, kCuSeqlens };
  enum Option { kScale };
  DeltaProduct() : KernelOperator("delta_product", 2) {}

  std::string second_derivative_error() const override {
    return "delta_product: implementation \"fused\" can be differentiated only once; for second "
           "derivatives pass implementation \"chunked\" or \"reference\".";
  }

  KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>& wanted) const override {
    const DeltaProductInputs inputs = kernel_inputs(in);
    const at::Tensor o = in.empty(output_sizes(in));
    const at::Tensor state = in.empty({static_cast<int64_t>(inputs.num_sequences), in.size(kQ, 2),
                                       in.size(kQ, 3), in.size(kV, 4)});
    KernelOutputs out{{o, state}, {}};
    if (!wanted.empty()) out.saved = {in.empty_buffer(saved_size(in, inputs))};
    in.run([&](Executor& executor) {
      delta_product_forward(inputs, o.data_ptr<float>(), state.data_ptr<float>(),
                            wanted.empty() ? nullptr : out.saved[0].data_ptr<float>(), executor);
    });
    out.outputs[0] = o.to(in[kQ].scalar_type());
    return out;
  }

  void backward(KernelInputs& in, KernelGradients& g) const override {
    const DeltaProductInputs inputs = kernel_inputs(in);
    DeltaProductGradients out;
    out.d_o = g.d_output(0, output_sizes(in)), out.d_final_state = g.d_output(1);
    out.dq = g.gradient(kQ), out.dk = g.gradient(kK), out.dv = g.gradient(kV);
    out.dbeta = g.gradient(kBeta), out.dlog_gate = g.gradient(kLogGate);
    out.dstate = g.gradient(kState);
    in.run([&](Executor& executor) {
      delta_product_backward(inputs, g.saved_data(0), out, executor);
    });
  }

 private:
  static std::vector<int64_t> output_sizes(const KernelInputs& in) {
    return {in.size(kQ, 0), in.size(kQ, 1), in.size(kQ, 2), in.size(kV, 4)};
  }
  static DeltaProductInputs kernel_inputs(KernelInputs& in) {
    DeltaProductInputs inputs{in.sequences(in[kQ], kCuSeqlens)};
    inputs.N = in.length(kK, 2), inputs.H = in.length(kQ, 2);
    inputs.K = in.length(kQ, 3), inputs.V = in.length(kV, 4);
    inputs.scale = static_cast<float>(in.option(kScale));
    inputs.q = in.data(kQ), inputs.k = in.data(kK), inputs.v = in.data(kV);
    inputs.beta = in.data(kBeta), inputs.log_gate = in.data(kLogGate);
    inputs.state = in.data(kState);
    return inputs;
  }
  // Of packed sequences a bound, so that it is known where cu_seqlens cannot be read.
  static size_t saved_size(const KernelInputs& in, const DeltaProductInputs& inputs) {
    return in.has(kCuSeqlens) ? delta_product_max_saved_size(inputs, inputs.num_tokens())
                              : delta_product_saved_size(inputs);
  }
};
const DeltaProduct kDeltaProduct;

}  // namespace

DeltaProductOutput delta_product_fused(const DeltaProductArguments& a) {
  const TensorVector out =
      kDeltaProduct.run({a.q, a.k, a.v, a.beta, a.log_gate, a.state, a.cu_seqlens}, {a.scale});
  return {out[0], out[1]};
}

}  // namespace dp
