#include "ops/dplr.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "kernels/dplr.h"
#include "ops/aten_executor.h"
#include "ops/kernel_tensors.h"
#include "ops/once_differentiable.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// After checking. a, b and state may be undefined.
struct DplrArguments {
  at::Tensor q, w, k, v, a, b, state;
  std::vector<int64_t> offsets;  // [S+1] of the tokens of all sequences laid end to end

  int64_t S() const { return static_cast<int64_t>(offsets.size()) - 1; }
  std::vector<int64_t> state_sizes() const { return {S(), k.size(3), k.size(4), v.size(4)}; }
};

DplrArguments checked_dplr(const at::Tensor& q, const at::Tensor& w, const at::Tensor& k,
                           const at::Tensor& v, const DplrOptions& options) {
  const char* op = "dplr";
  DplrArguments args;
  args.q = q, args.w = w, args.k = k, args.v = v;
  args.a = options.a.value_or(at::Tensor()), args.b = options.b.value_or(at::Tensor());
  args.state = options.state.value_or(at::Tensor());
  check_leading(op, "k", k);
  TORCH_CHECK_VALUE(k.dim() == 5, op, ": k must have shape [B,T,N,H,K], got ", k.sizes(), ".");
  const int64_t B = k.size(0), T = k.size(1), N = k.size(2), H = k.size(3), K = k.size(4);
  check_like(op, "q", q, "k", k);
  TORCH_CHECK_VALUE(q.sizes() == at::IntArrayRef({B, T, H, K}), op,
                    ": q must have shape [B,T,H,K] = ", at::IntArrayRef({B, T, H, K}),
                    " to match k, got ", q.sizes(), ".");
  check_like(op, "w", w, "k", k);
  check_same_sizes(op, "w", w, "k", k);
  check_like(op, "v", v, "k", k);
  TORCH_CHECK_VALUE(v.dim() == 5 && v.sizes().slice(0, 4) == k.sizes().slice(0, 4), op,
                    ": v must have shape [B,T,N,H,V] = [", B, ", ", T, ", ", N, ", ", H,
                    ", V] to match k, got ", v.sizes(), ".");
  TORCH_CHECK_VALUE(args.a.defined() == args.b.defined(), op,
                    ": a and b must be given both or neither, got one.");
  if (args.a.defined()) {
    for (const auto& [name, x] : {std::pair("a", args.a), std::pair("b", args.b)}) {
      check_like(op, name, x, "k", k);
      check_same_sizes(op, name, x, "k", k);
    }
  }
  if (options.cu_seqlens && options.cu_seqlens->defined()) {
    args.offsets = checked_offsets(op, *options.cu_seqlens, "k", k);
  } else {
    for (int64_t s = 0; s <= B; ++s) args.offsets.push_back(s * T);
  }
  if (args.state.defined()) {
    check_like(op, "state", args.state, "k", k);
    TORCH_CHECK_VALUE(args.state.sizes() == at::IntArrayRef(args.state_sizes()), op,
                      ": state must have shape [S,H,K,V] = ", at::IntArrayRef(args.state_sizes()),
                      ", got ", args.state.sizes(), ".");
  }
  return args;
}

// DplrInputs and the memory it points into.
class DplrTensors {
 public:
  explicit DplrTensors(const DplrArguments& args)
      : q_(for_kernel(args.q)),
        w_(for_kernel(args.w)),
        k_(for_kernel(args.k)),
        v_(for_kernel(args.v)),
        a_(for_kernel(args.a)),
        b_(for_kernel(args.b)),
        state_(for_kernel(args.state)) {
    inputs_.num_sequences = static_cast<size_t>(args.S());
    inputs_.offsets = args.offsets.data();
    inputs_.N = static_cast<size_t>(args.k.size(2)), inputs_.H = static_cast<size_t>(k_.size(3));
    inputs_.K = static_cast<size_t>(k_.size(4)), inputs_.V = static_cast<size_t>(v_.size(4));
    inputs_.q = data(q_), inputs_.w = data(w_), inputs_.k = data(k_), inputs_.v = data(v_);
    inputs_.a = data(a_), inputs_.b = data(b_), inputs_.state = data(state_);
  }
  DplrTensors(const DplrTensors&) = delete;
  DplrTensors& operator=(const DplrTensors&) = delete;

  const DplrInputs& get() const { return inputs_; }

 private:
  at::Tensor q_, w_, k_, v_, a_, b_, state_;
  DplrInputs inputs_;
};

// `saved`, when asked for, receives what the backward pass needs beyond the arguments.
DplrOutput run_forward(const DplrArguments& args, at::Tensor* saved) {
  const DplrTensors tensors(args);
  const at::TensorOptions options = args.k.options().dtype(at::kFloat);
  const at::Tensor o =
      at::empty({args.q.size(0), args.q.size(1), args.q.size(2), args.v.size(4)}, options);
  const at::Tensor state = at::empty(args.state_sizes(), options);
  if (saved) *saved = at::empty({static_cast<int64_t>(dplr_saved_size(tensors.get()))}, options);
  AtenExecutor executor;
  dplr_forward(tensors.get(), o.data_ptr<float>(), state.data_ptr<float>(),
               saved ? saved->data_ptr<float>() : nullptr, executor);
  return {o.to(args.q.scalar_type()), state.to(args.q.scalar_type())};
}

// Gradients of q, w, k, v and of those of a, b and state that there are, in this order.
variable_list run_backward(const DplrArguments& args, const at::Tensor& saved,
                           const at::Tensor& d_o, const at::Tensor& d_state) {
  const DplrTensors tensors(args);
  variable_list wanted = {args.q, args.w, args.k, args.v}, grads;
  for (const at::Tensor& x : {args.a, args.b, args.state})
    if (x.defined()) wanted.push_back(x);
  for (const at::Tensor& x : wanted) grads.push_back(empty_float(x));
  const at::Tensor d_o_float =
      d_o.defined() ? for_kernel(d_o)
                    : at::zeros({args.q.size(0), args.q.size(1), args.q.size(2), args.v.size(4)},
                                args.k.options().dtype(at::kFloat));
  const at::Tensor d_state_float = for_kernel(d_state);
  DplrGradients gradients;
  gradients.d_o = data(d_o_float), gradients.d_final_state = data(d_state_float);
  gradients.dq = grads[0].data_ptr<float>(), gradients.dw = grads[1].data_ptr<float>();
  gradients.dk = grads[2].data_ptr<float>(), gradients.dv = grads[3].data_ptr<float>();
  if (args.a.defined()) {
    gradients.da = grads[4].data_ptr<float>(), gradients.db = grads[5].data_ptr<float>();
  }
  if (args.state.defined()) gradients.dstate = grads.back().data_ptr<float>();
  AtenExecutor executor;
  dplr_backward(tensors.get(), data(saved), gradients, executor);
  for (size_t i = 0; i < grads.size(); ++i) grads[i] = grads[i].to(wanted[i].scalar_type());
  return grads;
}

struct DplrFunction : torch::autograd::Function<DplrFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& w,
                               const at::Tensor& k, const at::Tensor& v,
                               const c10::optional<at::Tensor>& a,
                               const c10::optional<at::Tensor>& b,
                               const c10::optional<at::Tensor>& state, const DplrArguments& args) {
    at::Tensor saved;
    const DplrOutput output = run_forward(args, &saved);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({q, w, k, v, a.value_or(at::Tensor()), b.value_or(at::Tensor()),
                            state.value_or(at::Tensor()), saved});
    ctx->saved_data["offsets"] = args.offsets;
    return {output.o, output.state};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    DplrArguments args;
    args.q = saved[0], args.w = saved[1], args.k = saved[2], args.v = saved[3];
    args.a = saved[4], args.b = saved[5], args.state = saved[6];
    args.offsets = ctx->saved_data["offsets"].toIntVector();
    variable_list sources = saved;
    sources.insert(sources.end(), d_outputs.begin(), d_outputs.end());
    const variable_list grads = once_differentiable(
        sources,
        "dplr: float32 can be differentiated only once; for second derivatives pass float64.",
        [&] { return run_backward(args, saved[7], d_outputs[0], d_outputs[1]); });
    variable_list out(grads.begin(), grads.begin() + 4);
    size_t next = 4;
    for (const at::Tensor& x : {args.a, args.b, args.state})
      out.push_back(x.defined() ? grads[next++] : at::Tensor());
    out.emplace_back();  // of the arguments as a whole
    return out;
  }
};

// Tokens begin .. end-1 of all B sequences in step: state [B,H,K,V].
DplrOutput composed_dplr_part(const DplrArguments& args, int64_t begin, int64_t end,
                              at::Tensor state) {
  std::vector<at::Tensor> o = {
      at::zeros({state.size(0), 0, state.size(1), state.size(3)}, state.options())};
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t n = 0; n < args.k.size(2); ++n) {
      const auto at_step = [&](const at::Tensor& x) { return x.select(1, t).select(1, n); };
      const at::Tensor before = state;
      state = at_step(args.w).unsqueeze(-1) * before +
              at_step(args.k).unsqueeze(-1) * at_step(args.v).unsqueeze(-2);
      if (args.a.defined())
        state = state + at::matmul(at_step(args.a).unsqueeze(-1),
                                   at::matmul(at_step(args.b).unsqueeze(-2), before));
    }
    o.push_back(at::matmul(args.q.select(1, t).unsqueeze(-2), state).squeeze(-2).unsqueeze(1));
  }
  return {at::cat(o, 1), state};
}

DplrOutput composed_dplr(const DplrArguments& args) {
  const at::Tensor state =
      args.state.defined() ? args.state : at::zeros(args.state_sizes(), args.k.options());
  if (args.k.size(0) == args.S())  // not packed, or one sequence
    return composed_dplr_part(args, 0, args.k.size(1), state);
  std::vector<at::Tensor> o, states;
  for (int64_t s = 0; s < args.S(); ++s) {
    const DplrOutput part =
        composed_dplr_part(args, args.offsets[s], args.offsets[s + 1], state.slice(0, s, s + 1));
    o.push_back(part.o), states.push_back(part.state);
  }
  return {at::cat(o, 1), at::cat(states, 0)};
}

}  // namespace

DplrOutput dplr(const at::Tensor& q, const at::Tensor& w, const at::Tensor& k, const at::Tensor& v,
                const DplrOptions& options) {
  const DplrArguments args = checked_dplr(q, w, k, v, options);
  if (!has_kernel(k)) return composed_dplr(args);
  if (!wants_gradient({q, w, k, v, args.a, args.b, args.state})) return run_forward(args, nullptr);
  const variable_list outputs = DplrFunction::apply(q, w, k, v, optional(args.a), optional(args.b),
                                                    optional(args.state), args);
  return {outputs[0], outputs[1]};
}

}  // namespace dp
