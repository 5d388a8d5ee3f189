#include "ops/dplr.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>

#include "base/check_input.h"
#include "kernels/dplr.h"
#include "ops/kernel_operator.h"
#include "ops/packed_sequences.h"

namespace dp {
namespace {

class Dplr final : public KernelOperator {
 public:
  enum Input { kQ, kW, kK, kV, kA, kB, kState, kCuSeqlens };
  Dplr() : KernelOperator("dplr", 2) {}

  KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>& wanted) const override {
    const DplrInputs inputs = kernel_inputs(in);
    const at::Tensor o = in.empty(output_sizes(in));
    const at::Tensor state = in.empty({static_cast<int64_t>(inputs.num_sequences), in.size(kK, 3),
                                       in.size(kK, 4), in.size(kV, 4)});
    KernelOutputs out{{o, state}, {}};
    if (!wanted.empty()) out.saved = {in.empty_buffer(dplr_saved_size(inputs))};
    in.run([&](Executor& executor) {
      dplr_forward(inputs, o.data_ptr<float>(), state.data_ptr<float>(),
                   wanted.empty() ? nullptr : out.saved[0].data_ptr<float>(), executor);
    });
    out.outputs[0] = o.to(in[kQ].scalar_type());
    return out;
  }

  void backward(KernelInputs& in, KernelGradients& g) const override {
    const DplrInputs inputs = kernel_inputs(in);
    DplrGradients out;
    out.d_o = g.d_output(0, output_sizes(in)), out.d_final_state = g.d_output(1);
    out.dq = g.gradient(kQ), out.dw = g.gradient(kW), out.dk = g.gradient(kK);
    out.dv = g.gradient(kV), out.da = g.gradient(kA), out.db = g.gradient(kB);
    out.dstate = g.gradient(kState);
    in.run([&](Executor& executor) { dplr_backward(inputs, g.saved_data(0), out, executor); });
  }

 private:
  static std::vector<int64_t> output_sizes(const KernelInputs& in) {
    return {in.size(kQ, 0), in.size(kQ, 1), in.size(kQ, 2), in.size(kV, 4)};
  }
  static DplrInputs kernel_inputs(KernelInputs& in) {
    DplrInputs inputs{in.sequences(in[kQ], kCuSeqlens)};
    inputs.N = in.length(kK, 2), inputs.H = in.length(kK, 3);
    inputs.K = in.length(kK, 4), inputs.V = in.length(kV, 4);
    inputs.q = in.data(kQ), inputs.w = in.data(kW), inputs.k = in.data(kK), inputs.v = in.data(kV);
    inputs.a = in.data(kA), inputs.b = in.data(kB), inputs.state = in.data(kState);
    return inputs;
  }
};
const Dplr kDplr;

// q, w, k, v, a, b and the state of a dense batch.
TensorVector composed_dplr(const TensorVector& tokens, const TensorVector& states) {
  const at::Tensor &q = tokens[0], &w = tokens[1], &k = tokens[2], &v = tokens[3], &a = tokens[4];
  const int64_t B = k.size(0), H = k.size(3), K = k.size(4), V = v.size(4);
  at::Tensor state = states[0].defined() ? states[0] : at::zeros({B, H, K, V}, k.options());
  TensorVector o = {at::zeros({B, 0, H, V}, k.options())};
  for (int64_t t = 0; t < k.size(1); ++t) {
    for (int64_t n = 0; n < k.size(2); ++n) {
      const auto at_step = [&](const at::Tensor& x) { return x.select(1, t).select(1, n); };
      const at::Tensor before = state;
      state =
          at_step(w).unsqueeze(-1) * before + at_step(k).unsqueeze(-1) * at_step(v).unsqueeze(-2);
      if (a.defined())
        state = state + at::matmul(at_step(a).unsqueeze(-1),
                                   at::matmul(at_step(tokens[5]).unsqueeze(-2), before));
    }
    o.push_back(at::matmul(q.select(1, t).unsqueeze(-2), state).squeeze(-2).unsqueeze(1));
  }
  return {at::cat(o, 1), state};
}

}  // namespace

DplrOutput dplr(const at::Tensor& q, const at::Tensor& w, const at::Tensor& k, const at::Tensor& v,
                const DplrOptions& options) {
  const at::Tensor a = value(options.a), b = value(options.b), state = value(options.state);
  const at::Tensor cu_seqlens = value(options.cu_seqlens);
  const ArgumentChecks check("dplr", "k", k);
  check.shape("k", k, {"B,T,N,H,K", {-1, -1, -1, -1, -1}});
  const int64_t B = k.size(0), T = k.size(1), N = k.size(2), H = k.size(3), K = k.size(4);
  check.required("q", q, {"B,T,H,K", {B, T, H, K}, "k"});
  check.required("w", w, {"B,T,N,H,K", at::DimVector(k.sizes()), "k"});
  check.required("v", v, {"B,T,N,H,V", {B, T, N, H, -1}, "k"});
  DP_CHECK_INPUT(a.defined() == b.defined(),
                 "dplr: a and b must be given both or neither, got one.");
  check.optional("a", a, {"B,T,N,H,K", at::DimVector(k.sizes()), "k"}, DtypeRule::kSame);
  check.optional("b", b, {"B,T,N,H,K", at::DimVector(k.sizes()), "k"}, DtypeRule::kSame);
  check_cu_seqlens("dplr", cu_seqlens, "k", k);
  check.optional(
      "state", state,
      {"S,H,K,V", {num_sequences(k, cu_seqlens), H, K, v.size(4)}, "the sequences, k and v"});
  TensorVector out;
  if (has_kernel(k)) {
    out = kDplr.run({q, w, k, v, a, b, state, cu_seqlens});
  } else {
    out = for_each_sequence("dplr", {q, w, k, v, a, b}, {state}, cu_seqlens, composed_dplr);
  }
  return {out[0], out[1]};
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def(
      "dplr(Tensor q, Tensor w, Tensor k, Tensor v, *, Tensor? a=None, Tensor? b=None, "
      "Tensor? state=None, Tensor? cu_seqlens=None) -> (Tensor o, Tensor state)",
      [](const at::Tensor& q, const at::Tensor& w, const at::Tensor& k, const at::Tensor& v,
         const Optional<at::Tensor>& a, const Optional<at::Tensor>& b,
         const Optional<at::Tensor>& state, const Optional<at::Tensor>& cu_seqlens) {
        const DplrOutput out = dplr(q, w, k, v, {a, b, state, cu_seqlens});
        return std::make_tuple(out.o, out.state);
      });
}

}  // namespace dp
