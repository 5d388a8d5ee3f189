#include "ops/selective_scan.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "kernels/selective_scan.h"
#include "ops/aten_executor.h"
#include "ops/kernel_tensors.h"
#include "ops/once_differentiable.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// After checking. Optional tensors may be undefined.
struct SelectiveScanArguments {
  at::Tensor x, dt, A, B, C, D, state;
  std::vector<int64_t> offsets;  // [S+1] of the tokens of all sequences laid end to end
  bool packed = false, negative_eigenvalues = false;

  int64_t E() const { return A.size(0); }
  int64_t N() const { return A.size(1); }
  int64_t S() const { return static_cast<int64_t>(offsets.size()) - 1; }
  variable_list tensors() const { return {x, dt, A, B, C, D, state}; }
};

void check_scan_sizes(const char* name, const at::Tensor& tensor, const at::Tensor& x,
                      const char* letters, at::IntArrayRef sizes, const char* to_match) {
  check_like("selective_scan", name, tensor, "x", x, /*may_be_float32=*/true);
  TORCH_CHECK_VALUE(tensor.sizes() == sizes, "selective_scan: ", name, " must have shape ", letters,
                    " = ", sizes, " to match ", to_match, ", got ", tensor.sizes(), ".");
}

SelectiveScanArguments checked_scan(const at::Tensor& x, const at::Tensor& dt, const at::Tensor& A,
                                    const at::Tensor& B, const at::Tensor& C,
                                    const SelectiveScanOptions& options) {
  const char* op = "selective_scan";
  check_leading(op, "x", x);
  TORCH_CHECK_VALUE(x.dim() == 3, op, ": x must have shape [B,T,E], got ", x.sizes(), ".");
  const int64_t rows = x.size(0), T = x.size(1), E = x.size(2);
  check_scan_sizes("dt", dt, x, "[B,T,E]", {rows, T, E}, "x");
  check_like(op, "A", A, "x", x, /*may_be_float32=*/true);
  TORCH_CHECK_VALUE(A.dim() == 2 && A.size(0) == E && A.size(1) >= 1, op,
                    ": A must have shape [E,N] = [", E, ", N] to match x, got ", A.sizes(), ".");
  const int64_t N = A.size(1);
  check_scan_sizes("B", B, x, "[B,T,N]", {rows, T, N}, "x and A");
  check_scan_sizes("C", C, x, "[B,T,N]", {rows, T, N}, "x and A");
  SelectiveScanArguments a;
  a.x = x, a.dt = dt, a.A = A, a.B = B, a.C = C;
  a.D = options.D.value_or(at::Tensor()), a.state = options.state.value_or(at::Tensor());
  a.negative_eigenvalues = options.negative_eigenvalues;
  a.packed = options.cu_seqlens.has_value() && options.cu_seqlens->defined();
  if (a.packed)
    a.offsets = checked_offsets(op, *options.cu_seqlens, "x", x);
  else
    for (int64_t s = 0; s <= rows; ++s) a.offsets.push_back(s * T);
  if (a.D.defined()) check_scan_sizes("D", a.D, x, "[E]", {E}, "x");
  if (a.state.defined())
    check_scan_sizes("state", a.state, x, "[S,E,N]", {a.S(), E, N}, "the sequences, x and A");
  return a;
}

// SelectiveScanInputs and the memory it points into.
class SelectiveScanTensors {
 public:
  explicit SelectiveScanTensors(const SelectiveScanArguments& a) {
    for (const at::Tensor& tensor : a.tensors()) tensors_.push_back(for_kernel(tensor));
    inputs_.num_sequences = static_cast<size_t>(a.S());
    inputs_.offsets = a.offsets.data();
    inputs_.E = static_cast<size_t>(a.E()), inputs_.N = static_cast<size_t>(a.N());
    inputs_.negative_eigenvalues = a.negative_eigenvalues;
    inputs_.x = data(tensors_[0]), inputs_.dt = data(tensors_[1]), inputs_.A = data(tensors_[2]);
    inputs_.B = data(tensors_[3]), inputs_.C = data(tensors_[4]);
    inputs_.D = data(tensors_[5]), inputs_.state = data(tensors_[6]);
  }
  SelectiveScanTensors(const SelectiveScanTensors&) = delete;
  SelectiveScanTensors& operator=(const SelectiveScanTensors&) = delete;

  const SelectiveScanInputs& get() const { return inputs_; }

 private:
  variable_list tensors_;
  SelectiveScanInputs inputs_;
};

// `saved`, unless null, becomes what the backward pass needs.
SelectiveScanOutput forward_scan(const SelectiveScanArguments& a, at::Tensor* saved) {
  const SelectiveScanTensors inputs(a);
  const at::Tensor y = empty_float(a.x);
  const at::Tensor state = at::empty({a.S(), a.E(), a.N()}, y.options());
  SelectiveScanOutputs outputs;
  outputs.y = y.data_ptr<float>(), outputs.state = state.data_ptr<float>();
  if (saved != nullptr) {
    *saved =
        at::empty({static_cast<int64_t>(selective_scan_saved_size(inputs.get()))}, y.options());
    outputs.saved = saved->data_ptr<float>();
  }
  AtenExecutor executor;
  selective_scan_forward(inputs.get(), outputs, executor);
  return {y.to(a.x.scalar_type()), state};
}

// Gradients of those tensors that are defined, in their order. `dy` or `dstate` may be undefined.
variable_list backward_scan(const SelectiveScanArguments& a, const at::Tensor& saved,
                            const at::Tensor& dy, const at::Tensor& dstate) {
  variable_list wanted, grads;
  const auto gradient_of = [&](const at::Tensor& x) -> float* {
    if (!x.defined()) return nullptr;
    wanted.push_back(x);
    grads.push_back(empty_float(x));
    return grads.back().data_ptr<float>();
  };
  const at::Tensor dy_float = for_kernel(dy.defined() ? dy : at::zeros_like(a.x));
  const at::Tensor dstate_float = for_kernel(dstate);
  SelectiveScanGradients gradients;
  gradients.saved = data(saved);
  gradients.dy = data(dy_float), gradients.d_final_state = data(dstate_float);
  gradients.dx = gradient_of(a.x), gradients.ddt = gradient_of(a.dt);
  gradients.dA = gradient_of(a.A), gradients.dB = gradient_of(a.B), gradients.dC = gradient_of(a.C);
  gradients.dD = gradient_of(a.D), gradients.dstate = gradient_of(a.state);
  AtenExecutor executor;
  selective_scan_backward(SelectiveScanTensors(a).get(), gradients, executor);
  for (size_t i = 0; i < grads.size(); ++i) grads[i] = grads[i].to(wanted[i].scalar_type());
  return grads;
}

struct SelectiveScanFunction : torch::autograd::Function<SelectiveScanFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& dt,
                               const at::Tensor& A, const at::Tensor& B, const at::Tensor& C,
                               const c10::optional<at::Tensor>& D,
                               const c10::optional<at::Tensor>& state,
                               const SelectiveScanArguments& a) {
    at::Tensor saved;
    const SelectiveScanOutput output = forward_scan(a, &saved);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward(
        {x, dt, A, B, C, D.value_or(at::Tensor()), state.value_or(at::Tensor()), saved});
    ctx->saved_data["offsets"] = a.offsets;
    ctx->saved_data["negative_eigenvalues"] = a.negative_eigenvalues;
    return {output.y, output.state};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    SelectiveScanArguments a;
    a.x = saved[0], a.dt = saved[1], a.A = saved[2], a.B = saved[3], a.C = saved[4];
    a.D = saved[5], a.state = saved[6];
    a.offsets = ctx->saved_data["offsets"].toIntVector();
    a.negative_eigenvalues = ctx->saved_data["negative_eigenvalues"].toBool();
    variable_list sources = saved;
    sources.insert(sources.end(), d_outputs.begin(), d_outputs.end());
    const variable_list grads = once_differentiable(
        sources,
        "selective_scan: float32 can be differentiated only once; for second derivatives pass "
        "float64.",
        [&] { return backward_scan(a, saved[7], d_outputs[0], d_outputs[1]); });
    variable_list out;
    size_t next = 0;
    for (const at::Tensor& x : a.tensors()) out.push_back(x.defined() ? grads[next++] : x);
    out.emplace_back();  // of the arguments as a whole
    return out;
  }
};

// y of tokens [begin, end) of every row, in the dtype of the arithmetic; h [B,E,N] is carried on.
at::Tensor composed_rows(const SelectiveScanArguments& a, int64_t begin, int64_t end,
                         at::Tensor& h) {
  const at::ScalarType type = compute_type(a.x);
  const at::Tensor A = a.A.to(type);
  std::vector<at::Tensor> y = {at::zeros({a.x.size(0), 0, a.E()}, A.options())};
  for (int64_t t = begin; t < end; ++t) {
    const auto token = [&](const at::Tensor& tensor) { return tensor.select(1, t).to(type); };
    const at::Tensor x = token(a.x), dt = token(a.dt).unsqueeze(2);
    const at::Tensor B = token(a.B).unsqueeze(1), C = token(a.C).unsqueeze(1);
    at::Tensor eigenvalues = at::exp(dt * A);
    if (a.negative_eigenvalues) eigenvalues = 2 * eigenvalues - 1;
    h = eigenvalues * h + dt * B * x.unsqueeze(2);
    at::Tensor sum = (C * h).sum(2);
    if (a.D.defined()) sum = sum + a.D.to(type) * x;
    y.push_back(sum.unsqueeze(1));
  }
  return at::cat(y, 1);
}

SelectiveScanOutput composed_scan(const SelectiveScanArguments& a) {
  const at::ScalarType type = compute_type(a.x);
  const at::Tensor start = a.state.defined()
                               ? a.state.to(type)
                               : at::zeros({a.S(), a.E(), a.N()}, a.x.options().dtype(type));
  if (!a.packed) {
    at::Tensor h = start.clone();
    const at::Tensor y = composed_rows(a, 0, a.x.size(1), h);
    return {y.to(a.x.scalar_type()), h};
  }
  std::vector<at::Tensor> ys = {a.x.slice(1, 0, 0).to(type)};  // so that there is at least one
  std::vector<at::Tensor> states = {start.slice(0, 0, 0)};
  for (int64_t s = 0; s < a.S(); ++s) {
    at::Tensor h = start.slice(0, s, s + 1);
    ys.push_back(composed_rows(a, a.offsets[s], a.offsets[s + 1], h));
    states.push_back(h);
  }
  return {at::cat(ys, 1).to(a.x.scalar_type()), at::cat(states, 0)};
}

}  // namespace

SelectiveScanOutput selective_scan(const at::Tensor& x, const at::Tensor& dt, const at::Tensor& A,
                                   const at::Tensor& B, const at::Tensor& C,
                                   const SelectiveScanOptions& options) {
  const SelectiveScanArguments a = checked_scan(x, dt, A, B, C, options);
  if (!has_kernel(x)) return composed_scan(a);
  if (!wants_gradient({x, dt, A, B, C, a.D, a.state})) return forward_scan(a, nullptr);
  variable_list outputs =
      SelectiveScanFunction::apply(x, dt, A, B, C, optional(a.D), optional(a.state), a);
  return {outputs[0], outputs[1]};
}

}  // namespace dp
