#include "ops/selective_scan.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>

#include "kernels/selective_scan.h"
#include "ops/kernel_operator.h"
#include "ops/packed_sequences.h"

namespace dp {
namespace {

class SelectiveScan final : public KernelOperator {
 public:
  enum Input { kX, kDt, kA, kB, kC, kD, kState, kCuSeqlens };
  enum Option { kNegativeEigenvalues };
  SelectiveScan() : KernelOperator("selective_scan", 2) {}

  KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>& wanted) const override {
    const SelectiveScanInputs inputs = kernel_inputs(in);
    const at::Tensor y = in.empty(in[kX].sizes());
    const at::Tensor state =
        in.empty({static_cast<int64_t>(inputs.num_sequences), in.size(kA, 0), in.size(kA, 1)});
    KernelOutputs out{{y, state}, {}};
    if (!wanted.empty()) out.saved = {in.empty_buffer(selective_scan_saved_size(inputs))};
    in.run([&](Executor& executor) {
      selective_scan_forward(inputs,
                             {y.data_ptr<float>(), state.data_ptr<float>(),
                              wanted.empty() ? nullptr : out.saved[0].data_ptr<float>()},
                             executor);
    });
    out.outputs[0] = y.to(in[kX].scalar_type());
    return out;
  }

  void backward(KernelInputs& in, KernelGradients& g) const override {
    const SelectiveScanInputs inputs = kernel_inputs(in);
    SelectiveScanGradients out;
    out.saved = g.saved_data(0);
    out.dy = g.d_output(0, in[kX].sizes()), out.d_final_state = g.d_output(1);
    out.dx = g.gradient(kX), out.ddt = g.gradient(kDt), out.dA = g.gradient(kA);
    out.dB = g.gradient(kB), out.dC = g.gradient(kC), out.dD = g.gradient(kD);
    out.dstate = g.gradient(kState);
    in.run([&](Executor& executor) { selective_scan_backward(inputs, out, executor); });
  }

 private:
  static SelectiveScanInputs kernel_inputs(KernelInputs& in) {
    SelectiveScanInputs inputs{in.sequences(in[kX], kCuSeqlens)};
    inputs.E = in.length(kA, 0), inputs.N = in.length(kA, 1);
    inputs.negative_eigenvalues = in.option(kNegativeEigenvalues) != 0;
    inputs.x = in.data(kX), inputs.dt = in.data(kDt), inputs.A = in.data(kA);
    inputs.B = in.data(kB), inputs.C = in.data(kC), inputs.D = in.data(kD);
    inputs.state = in.data(kState);
    return inputs;
  }
};
const SelectiveScan kSelectiveScan;

// A dense batch in torch operators, token by token.
TensorVector composed_scan(const at::Tensor& x, const at::Tensor& dt, const at::Tensor& A,
                           const at::Tensor& B, const at::Tensor& C, const at::Tensor& D,
                           const at::Tensor& state, bool negative_eigenvalues) {
  const int64_t rows = x.size(0), E = A.size(0), N = A.size(1);
  at::Tensor h = state.defined() ? state.clone() : at::zeros({rows, E, N}, A.options());
  TensorVector y = {at::zeros({rows, 0, E}, A.options())};
  for (int64_t t = 0; t < x.size(1); ++t) {
    const at::Tensor x_t = x.select(1, t), dt_t = dt.select(1, t).unsqueeze(2);
    at::Tensor eigenvalues = at::exp(dt_t * A);
    if (negative_eigenvalues) eigenvalues = 2 * eigenvalues - 1;
    h = eigenvalues * h + dt_t * B.select(1, t).unsqueeze(1) * x_t.unsqueeze(2);
    at::Tensor sum = (C.select(1, t).unsqueeze(1) * h).sum(2);
    if (D.defined()) sum = sum + D * x_t;
    y.push_back(sum.unsqueeze(1));
  }
  return {at::cat(y, 1), h};
}

}  // namespace

SelectiveScanOutput selective_scan(const at::Tensor& x, const at::Tensor& dt, const at::Tensor& A,
                                   const at::Tensor& B, const at::Tensor& C,
                                   const SelectiveScanOptions& options) {
  const char* op = "selective_scan";
  const auto rule = DtypeRule::kSameOrFloat32;
  const at::Tensor D = value(options.D), state = value(options.state),
                   cu_seqlens = value(options.cu_seqlens);
  const ArgumentChecks check(op, "x", x);
  check.shape("x", x, {"B,T,E", {-1, -1, -1}});
  const int64_t rows = x.size(0), T = x.size(1), E = x.size(2);
  check.required("dt", dt, {"B,T,E", {rows, T, E}, "x"}, rule);
  check.required("A", A, {"E,N", {E, -1}, "x"}, rule);
  const int64_t N = A.size(1);
  check.required("B", B, {"B,T,N", {rows, T, N}, "x and A"}, rule);
  check.required("C", C, {"B,T,N", {rows, T, N}, "x and A"}, rule);
  check.optional("D", D, {"E", {E}, "x"});
  check_cu_seqlens(op, cu_seqlens, "x", x);
  check.optional("state", state,
                 {"S,E,N", {num_sequences(x, cu_seqlens), E, N}, "the sequences, x and A"});
  if (has_kernel(x)) {
    const TensorVector out = kSelectiveScan.run({x, dt, A, B, C, D, state, cu_seqlens},
                                                {double(options.negative_eigenvalues)});
    return {out[0], out[1]};
  }
  const at::ScalarType type = compute_type(x);
  const auto wide = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(type) : tensor;
  };
  const TensorVector out =
      for_each_sequence(op, {wide(x), wide(dt), wide(B), wide(C)}, {wide(state)}, cu_seqlens,
                        [&](const TensorVector& tokens, const TensorVector& states) {
                          return composed_scan(tokens[0], tokens[1], wide(A), tokens[2], tokens[3],
                                               wide(D), states[0], options.negative_eigenvalues);
                        });
  return {out[0].to(x.scalar_type()), out[1]};
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def(
      "selective_scan(Tensor x, Tensor dt, Tensor A, Tensor B, Tensor C, *, Tensor? D=None, "
      "Tensor? state=None, Tensor? cu_seqlens=None, bool negative_eigenvalues=False) "
      "-> (Tensor y, Tensor state)",
      [](const at::Tensor& x, const at::Tensor& dt, const at::Tensor& A, const at::Tensor& B,
         const at::Tensor& C, const Optional<at::Tensor>& D, const Optional<at::Tensor>& state,
         const Optional<at::Tensor>& cu_seqlens, bool negative_eigenvalues) {
        const SelectiveScanOutput out =
            selective_scan(x, dt, A, B, C, {D, state, cu_seqlens, negative_eigenvalues});
        return std::make_tuple(out.y, out.state);
      });
}

}  // namespace dp
