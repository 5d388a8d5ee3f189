#include "ops/slstm.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "kernels/slstm.h"
#include "ops/kernel_operator.h"
#include "ops/packed_sequences.h"

namespace dp {
namespace {

// The backward pass reads h and what was saved, not the gates, which are the largest tensor.
class Slstm final : public KernelOperator {
 public:
  enum Input { kGates, kRecurrent, kState, kCuSeqlens };
  Slstm() : KernelOperator("slstm", 2) {}

  bool keeps_input(size_t i) const override { return i != kGates; }
  bool keeps_output() const override { return true; }

  KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>& wanted) const override {
    const at::Tensor& gates = in[kGates];
    const SlstmInputs inputs = kernel_inputs(in, gates);
    const int64_t H = gates.size(2), K = gates.size(4);
    const at::Tensor h = in.empty({gates.size(0), gates.size(1), H, K});
    const at::Tensor state = in.empty({static_cast<int64_t>(inputs.num_sequences), H, 4, K});
    KernelOutputs out{{h, state}, {}};
    if (!wanted.empty()) out.saved = {in.empty_buffer(slstm_saved_size(inputs))};
    in.run([&](Executor& executor) {
      slstm_forward(inputs, h.data_ptr<float>(), state.data_ptr<float>(),
                    wanted.empty() ? nullptr : out.saved[0].data_ptr<float>(), executor);
    });
    if (gates.scalar_type() != h.scalar_type()) {
      out.outputs[0] = h.to(gates.scalar_type());
      if (!wanted.empty()) out.saved.push_back(h);  // before rounding
    }
    return out;
  }

  void backward(KernelInputs& in, KernelGradients& g) const override {
    // Saved are activations, h in float32 and the output; in float32 the last two are one.
    const at::Tensor& output = g.saved(g.num_saved() - 1);
    const SlstmInputs inputs = kernel_inputs(in, output);
    const int64_t H = output.size(2), K = output.size(3);
    SlstmGradients out;
    out.dh = g.d_output(0, output.sizes()), out.d_final_state = g.d_output(1);
    out.dgates =
        g.gradient(kGates, {output.size(0), output.size(1), H, 4, K}, output.scalar_type());
    out.drecurrent = g.wanted_gradient(kRecurrent), out.dstate = g.wanted_gradient(kState);
    in.run([&](Executor& executor) {
      slstm_backward(inputs, g.saved_data(1), g.saved_data(0), out, executor);
    });
  }

 private:
  static SlstmInputs kernel_inputs(KernelInputs& in, const at::Tensor& tokens) {
    SlstmInputs inputs{in.sequences(tokens, kCuSeqlens)};
    inputs.H = in.length(kRecurrent, 0), inputs.K = in.length(kRecurrent, 2);
    inputs.gates = in.data(kGates), inputs.recurrent = in.data(kRecurrent);
    inputs.state = in.data(kState);
    return inputs;
  }
};
const Slstm kSlstm;

// One dense batch: gates [B,T,H,4,K], state [B,H,4,K] or undefined.
TensorVector composed_slstm(const at::Tensor& gates, const at::Tensor& recurrent,
                            const at::Tensor& state) {
  const int64_t B = gates.size(0), T = gates.size(1), H = gates.size(2), K = gates.size(4);
  const at::Tensor matrix = recurrent.flatten(1, 2);  // [H,4K,K]
  const at::Tensor start = state.defined() ? state : at::zeros({B, H, 4, K}, gates.options());
  at::Tensor h = start.select(2, 0), c = start.select(2, 1), n = start.select(2, 2);
  at::Tensor m = start.select(2, 3).detach();
  m = m.masked_fill(n.detach() == 0, -std::numeric_limits<double>::infinity());
  TensorVector outputs;
  for (int64_t t = 0; t < T; ++t) {
    const at::Tensor u =
        gates.select(1, t) + at::matmul(matrix, h.unsqueeze(-1)).view({B, H, 4, K});
    const at::Tensor u_i = u.select(2, 0), a = at::log_sigmoid(u.select(2, 1)) + m;
    m = at::maximum(a, u_i).detach();
    const at::Tensor i = at::exp(u_i - m), f = at::exp(a - m);
    c = f * c + i * at::tanh(u.select(2, 2));
    n = f * n + i;
    h = at::sigmoid(u.select(2, 3)) * c / n;
    outputs.push_back(h);
  }
  return {T > 0 ? at::stack(outputs, 1) : at::zeros({B, 0, H, K}, gates.options()),
          at::stack({h, c, n, m.masked_fill(n.detach() == 0, 0)}, 2)};
}

}  // namespace

SlstmOutput slstm(const at::Tensor& gates, const at::Tensor& recurrent,
                  const SlstmOptions& options) {
  const at::Tensor state = value(options.state), cu_seqlens = value(options.cu_seqlens);
  const ArgumentChecks check("slstm", "gates", gates);
  check.shape("gates", gates, {"B,T,H,4,K", {-1, -1, -1, 4, -1}});
  const int64_t H = gates.size(2), K = gates.size(4);
  check.required("recurrent", recurrent, {"H,4,K,K", {H, 4, K, K}, "gates"},
                 DtypeRule::kSameOrFloat32);
  check_cu_seqlens("slstm", cu_seqlens, "gates", gates);
  check.optional("state", state, {"S,H,4,K", {num_sequences(gates, cu_seqlens), H, 4, K}, "gates"});
  if (has_kernel(gates)) {
    const TensorVector out = kSlstm.run({gates, recurrent, state, cu_seqlens});
    return {out[0], out[1]};
  }
  const at::ScalarType type = compute_type(gates);
  const TensorVector out =
      for_each_sequence("slstm", {gates.to(type)}, {state.defined() ? state.to(type) : state},
                        cu_seqlens, [&](const TensorVector& tokens, const TensorVector& states) {
                          return composed_slstm(tokens[0], recurrent.to(type), states[0]);
                        });
  return {out[0].to(gates.scalar_type()), out[1]};
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def(
      "slstm(Tensor gates, Tensor recurrent, *, Tensor? state=None, Tensor? cu_seqlens=None) "
      "-> (Tensor h, Tensor state)",
      [](const at::Tensor& gates, const at::Tensor& recurrent, const Optional<at::Tensor>& state,
         const Optional<at::Tensor>& cu_seqlens) {
        const SlstmOutput out = slstm(gates, recurrent, {state, cu_seqlens});
        return std::make_tuple(out.h, out.state);
      });
}

}  // namespace dp
