#include "ops/slstm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <vector>

#include "kernels/slstm.h"
#include "ops/aten_executor.h"
#include "ops/kernel_tensors.h"
#include "ops/once_differentiable.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// After checking. state may be undefined; so are the gates in the backward pass, which needs none.
struct SlstmArguments {
  at::Tensor gates, recurrent, state;
  std::vector<int64_t> offsets;  // [S+1] of the tokens of all sequences laid end to end
  bool packed = false;

  int64_t H() const { return recurrent.size(0); }
  int64_t K() const { return recurrent.size(2); }
  int64_t S() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

SlstmArguments checked_slstm(const at::Tensor& gates, const at::Tensor& recurrent,
                             const SlstmOptions& options) {
  const char* op = "slstm";
  check_leading(op, "gates", gates);
  TORCH_CHECK_VALUE(
      gates.dim() == 5 && gates.size(3) == 4 && gates.size(2) >= 1 && gates.size(4) >= 1, op,
      ": gates must have shape [B,T,H,4,K] with H and K at least 1, got ", gates.sizes(), ".");
  const int64_t H = gates.size(2), K = gates.size(4);
  check_like(op, "recurrent", recurrent, "gates", gates, /*may_be_float32=*/true);
  TORCH_CHECK_VALUE(recurrent.sizes() == at::IntArrayRef({H, 4, K, K}), op,
                    ": recurrent must have shape [H,4,K,K] = [", H, ", 4, ", K, ", ", K,
                    "] to match gates, got ", recurrent.sizes(), ".");
  SlstmArguments a;
  a.gates = gates, a.recurrent = recurrent;
  a.packed = options.cu_seqlens.has_value() && options.cu_seqlens->defined();
  if (a.packed) {
    a.offsets = checked_offsets(op, *options.cu_seqlens, "gates", gates);
  } else {
    for (int64_t b = 0; b <= gates.size(0); ++b) a.offsets.push_back(b * gates.size(1));
  }
  a.state = options.state.value_or(at::Tensor());
  if (a.state.defined()) {
    check_like(op, "state", a.state, "gates", gates, /*may_be_float32=*/true);
    TORCH_CHECK_VALUE(a.state.sizes() == at::IntArrayRef({a.S(), H, 4, K}), op,
                      ": state must have shape [S,H,4,K] = [", a.S(), ", ", H, ", 4, ", K,
                      "] to match gates, got ", a.state.sizes(), ".");
  }
  return a;
}

// SlstmInputs and the memory it points into.
class SlstmTensors {
 public:
  explicit SlstmTensors(const SlstmArguments& a)
      : gates_(for_kernel(a.gates)),
        recurrent_(for_kernel(a.recurrent)),
        state_(for_kernel(a.state)) {
    inputs_.num_sequences = static_cast<size_t>(a.S());
    inputs_.offsets = a.offsets.data();
    inputs_.H = static_cast<size_t>(a.H()), inputs_.K = static_cast<size_t>(a.K());
    inputs_.gates = data(gates_), inputs_.recurrent = data(recurrent_),
    inputs_.state = data(state_);
  }
  SlstmTensors(const SlstmTensors&) = delete;
  SlstmTensors& operator=(const SlstmTensors&) = delete;

  const SlstmInputs& get() const { return inputs_; }

 private:
  at::Tensor gates_, recurrent_, state_;
  SlstmInputs inputs_;
};

// Both in float32. `saved`, when asked for, receives what the backward pass needs beside these.
SlstmOutput run_slstm(const SlstmArguments& a, at::Tensor* saved) {
  const SlstmTensors tensors(a);
  const at::TensorOptions options = a.gates.options().dtype(at::kFloat);
  const SlstmOutput out = {at::empty({a.gates.size(0), a.gates.size(1), a.H(), a.K()}, options),
                           at::empty({a.S(), a.H(), 4, a.K()}, options)};
  if (saved != nullptr)
    *saved = at::empty({static_cast<int64_t>(slstm_saved_size(tensors.get()))}, options);
  AtenExecutor executor;
  slstm_forward(tensors.get(), out.h.data_ptr<float>(), out.state.data_ptr<float>(),
                saved != nullptr ? saved->data_ptr<float>() : nullptr, executor);
  return out;
}

// Gradients of the gates, recurrent and state; of the last two only where they require one.
variable_list slstm_gradients(const SlstmArguments& a, at::ScalarType gates_type,
                              const at::Tensor& h, const at::Tensor& saved, const at::Tensor& dh,
                              const at::Tensor& d_state) {
  const SlstmTensors tensors(a);
  const at::Tensor dh_float = dh.defined() ? for_kernel(dh) : at::zeros_like(h);
  const at::Tensor d_state_float = for_kernel(d_state);
  const auto wanted = [](const at::Tensor& x) {
    return x.defined() && x.requires_grad() ? empty_float(x) : at::Tensor();
  };
  const at::Tensor dgates =
      at::empty({h.size(0), h.size(1), a.H(), 4, a.K()}, h.options().requires_grad(false));
  const at::Tensor drecurrent = wanted(a.recurrent), dstate = wanted(a.state);
  const auto pointer = [](const at::Tensor& x) {
    return x.defined() ? x.data_ptr<float>() : nullptr;
  };
  AtenExecutor executor;
  slstm_backward(
      tensors.get(), data(h), data(saved),
      {data(dh_float), data(d_state_float), pointer(dgates), pointer(drecurrent), pointer(dstate)},
      executor);
  variable_list grads = {dgates.to(gates_type)};
  if (drecurrent.defined()) grads.push_back(drecurrent.to(a.recurrent.scalar_type()));
  if (dstate.defined()) grads.push_back(dstate.to(a.state.scalar_type()));
  return grads;
}

struct SlstmFunction : torch::autograd::Function<SlstmFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& gates,
                               const at::Tensor& recurrent, const c10::optional<at::Tensor>& state,
                               const SlstmArguments& a) {
    at::Tensor saved;
    const SlstmOutput out = run_slstm(a, &saved);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({recurrent, state.value_or(at::Tensor()), out.h, saved});
    ctx->saved_data["offsets"] = a.offsets;
    ctx->saved_data["gates_type"] = gates.scalar_type();
    return {out.h.to(gates.scalar_type()), out.state};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    SlstmArguments a;
    a.recurrent = saved[0], a.state = saved[1];
    a.offsets = ctx->saved_data["offsets"].toIntVector();
    const at::ScalarType gates_type = ctx->saved_data["gates_type"].toScalarType();
    variable_list sources = saved;
    sources.insert(sources.end(), d_outputs.begin(), d_outputs.end());
    const variable_list grads =
        once_differentiable(sources,
                            "slstm: float32 can be differentiated only once; for second "
                            "derivatives pass float64.",
                            [&] {
                              return slstm_gradients(a, gates_type, saved[2].detach(), saved[3],
                                                     d_outputs[0], d_outputs[1]);
                            });
    variable_list out = {grads[0]};
    size_t next = 1;
    for (const at::Tensor& x : {a.recurrent, a.state})
      out.push_back(x.defined() && x.requires_grad() ? grads[next++] : at::Tensor());
    out.emplace_back();  // of the arguments as a whole
    return out;
  }
};

// One dense batch: gates [B,T,H,4,K], state [B,H,4,K] or undefined.
SlstmOutput composed_slstm(const at::Tensor& gates, const at::Tensor& recurrent,
                           const at::Tensor& state) {
  const int64_t B = gates.size(0), T = gates.size(1), H = gates.size(2), K = gates.size(4);
  const at::Tensor matrix = recurrent.flatten(1, 2);  // [H,4K,K]
  const at::Tensor start = state.defined() ? state : at::zeros({B, H, 4, K}, gates.options());
  at::Tensor h = start.select(2, 0), c = start.select(2, 1), n = start.select(2, 2);
  at::Tensor m = start.select(2, 3).detach();
  m = m.masked_fill(n.detach() == 0, -std::numeric_limits<double>::infinity());
  std::vector<at::Tensor> outputs;
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

SlstmOutput composed_slstm(const SlstmArguments& a) {
  const at::ScalarType type = compute_type(a.gates);
  const at::Tensor gates = a.gates.to(type), recurrent = a.recurrent.to(type);
  const at::Tensor state = a.state.defined() ? a.state.to(type) : a.state;
  if (!a.packed) {
    const SlstmOutput out = composed_slstm(gates, recurrent, state);
    return {out.h.to(a.gates.scalar_type()), out.state};
  }
  // One more, empty, so that there is at least one.
  std::vector<at::Tensor> h = {at::zeros({1, 0, a.H(), a.K()}, gates.options())};
  std::vector<at::Tensor> states = {at::zeros({0, a.H(), 4, a.K()}, gates.options())};
  for (int64_t s = 0; s < a.S(); ++s) {
    const SlstmOutput out =
        composed_slstm(gates.slice(1, a.offsets[s], a.offsets[s + 1]), recurrent,
                       state.defined() ? state.slice(0, s, s + 1) : state);
    h.push_back(out.h);
    states.push_back(out.state);
  }
  return {at::cat(h, 1).to(a.gates.scalar_type()), at::cat(states, 0)};
}

}  // namespace

SlstmOutput slstm(const at::Tensor& gates, const at::Tensor& recurrent,
                  const SlstmOptions& options) {
  const SlstmArguments a = checked_slstm(gates, recurrent, options);
  if (!has_kernel(gates)) return composed_slstm(a);
  if (!wants_gradient({gates, recurrent, a.state})) {
    const SlstmOutput out = run_slstm(a, nullptr);
    return {out.h.to(gates.scalar_type()), out.state};
  }
  const variable_list out = SlstmFunction::apply(gates, recurrent, optional(a.state), a);
  return {out[0], out[1]};
}

}  // namespace dp
