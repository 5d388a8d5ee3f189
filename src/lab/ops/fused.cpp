// The SIMD kernels behind torch tensors, and their place in torch's graph of gradients.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/delta_product.h"
#include "ops/aten_executor.h"
#include "ops/implementations.h"
#include "ops/kernel_tensors.h"
#include "ops/once_differentiable.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// DeltaProductInputs and the memory it points into.
class KernelInputs {
 public:
  explicit KernelInputs(const DeltaProductArguments& a)
      : q_(for_kernel(a.q)),
        k_(for_kernel(a.k)),
        v_(for_kernel(a.v)),
        beta_(for_kernel(a.beta)),
        log_gate_(for_kernel(a.log_gate)),
        state_(for_kernel(a.state)),
        offsets_{0} {
    if (a.packed) {
      for (const int64_t length : a.lengths) offsets_.push_back(offsets_.back() + length);
    } else {
      for (int64_t b = 1; b <= a.B; ++b) offsets_.push_back(b * a.T);
    }
    inputs_.num_sequences = offsets_.size() - 1;
    inputs_.offsets = offsets_.data();
    inputs_.N = a.N, inputs_.H = a.H, inputs_.K = a.K, inputs_.V = a.V;
    inputs_.scale = static_cast<float>(a.scale);
    inputs_.q = data(q_), inputs_.k = data(k_), inputs_.v = data(v_), inputs_.beta = data(beta_);
    inputs_.log_gate = data(log_gate_), inputs_.state = data(state_);
  }
  KernelInputs(const KernelInputs&) = delete;
  KernelInputs& operator=(const KernelInputs&) = delete;

  const DeltaProductInputs& get() const { return inputs_; }

 private:
  at::Tensor q_, k_, v_, beta_, log_gate_, state_;
  std::vector<int64_t> offsets_;
  DeltaProductInputs inputs_;
};

at::TensorOptions float_options(const DeltaProductArguments& a) {
  return a.q.options().dtype(at::kFloat);
}

// `saved`, when asked for, receives what the backward pass needs beyond the arguments.
DeltaProductOutput forward(const DeltaProductArguments& a, at::Tensor* saved) {
  const KernelInputs inputs(a);
  const at::Tensor o = at::empty({a.B, a.T, a.H, a.V}, float_options(a));
  const at::Tensor state = at::empty({a.num_sequences(), a.H, a.K, a.V}, float_options(a));
  if (saved) {
    const auto size = static_cast<int64_t>(delta_product_saved_size(inputs.get()));
    *saved = at::empty({size}, float_options(a));
  }
  AtenExecutor executor;
  delta_product_forward(inputs.get(), o.data_ptr<float>(), state.data_ptr<float>(),
                        saved ? saved->data_ptr<float>() : nullptr, executor);
  return {o.to(a.q.scalar_type()), state};
}

// Gradients of q, k, v, beta, then of log_gate and state if there are any, in the dtypes of these.
// d_o and d_state may be undefined.
variable_list backward(const DeltaProductArguments& a, const at::Tensor& saved,
                       const at::Tensor& d_o, const at::Tensor& d_state) {
  const KernelInputs inputs(a);
  const at::Tensor d_o_float =
      d_o.defined() ? for_kernel(d_o) : at::zeros({a.B, a.T, a.H, a.V}, float_options(a));
  const at::Tensor d_state_float = for_kernel(d_state);
  variable_list wanted = {a.q, a.k, a.v, a.beta};
  if (a.log_gate.defined()) wanted.push_back(a.log_gate);
  if (a.state.defined()) wanted.push_back(a.state);
  variable_list grads;
  for (const at::Tensor& x : wanted) grads.push_back(at::empty(x.sizes(), float_options(a)));

  DeltaProductGradients gradients;
  gradients.d_o = data(d_o_float);
  gradients.d_final_state = data(d_state_float);
  gradients.dq = grads[0].data_ptr<float>();
  gradients.dk = grads[1].data_ptr<float>();
  gradients.dv = grads[2].data_ptr<float>();
  gradients.dbeta = grads[3].data_ptr<float>();
  if (a.log_gate.defined()) gradients.dlog_gate = grads[4].data_ptr<float>();
  if (a.state.defined()) gradients.dstate = grads.back().data_ptr<float>();
  AtenExecutor executor;
  delta_product_backward(inputs.get(), data(saved), gradients, executor);
  for (size_t i = 0; i < grads.size(); ++i) grads[i] = grads[i].to(wanted[i].scalar_type());
  return grads;
}

struct FusedFunction : torch::autograd::Function<FusedFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const at::Tensor& beta,
                               const c10::optional<at::Tensor>& log_gate,
                               const c10::optional<at::Tensor>& state,
                               const DeltaProductArguments& a, bool keep) {
    at::Tensor saved;
    const DeltaProductOutput output = dp::forward(a, keep ? &saved : nullptr);
    if (keep) {
      ctx->set_materialize_grads(false);
      // The arguments as they came: torch then notices changes in place, and a bfloat16 or strided
      // tensor is kept once.
      ctx->save_for_backward(
          {q, k, v, beta, log_gate.value_or(at::Tensor()), state.value_or(at::Tensor()), saved});
      ctx->saved_data["scale"] = a.scale;
      ctx->saved_data["packed"] = a.packed;
      ctx->saved_data["lengths"] = a.lengths;
    }
    return {output.o, output.state};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    DeltaProductArguments a;
    a.q = saved[0], a.k = saved[1], a.v = saved[2], a.beta = saved[3];
    a.log_gate = saved[4], a.state = saved[5];
    a.scale = ctx->saved_data["scale"].toDouble();
    a.packed = ctx->saved_data["packed"].toBool();
    a.lengths = ctx->saved_data["lengths"].toIntVector();
    a.B = a.q.size(0), a.T = a.q.size(1), a.H = a.q.size(2), a.K = a.q.size(3);
    a.N = a.k.size(2), a.V = a.v.size(4);

    variable_list sources = saved;
    sources.insert(sources.end(), d_outputs.begin(), d_outputs.end());
    const variable_list grads = once_differentiable(
        sources,
        "delta_product: implementation \"fused\" can be differentiated only once; for second "
        "derivatives pass implementation \"chunked\" or \"reference\".",
        [&] { return dp::backward(a, saved[6], d_outputs[0], d_outputs[1]); });
    return {grads[0],
            grads[1],
            grads[2],
            grads[3],
            a.log_gate.defined() ? grads[4] : at::Tensor(),
            a.state.defined() ? grads.back() : at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

DeltaProductOutput delta_product_fused(const DeltaProductArguments& arguments) {
  return forward(arguments, nullptr);
}

DeltaProductOutput delta_product_fused_autograd(const DeltaProductArguments& a) {
  const bool keep = wants_gradient({a.q, a.k, a.v, a.beta, a.log_gate, a.state});
  const variable_list outputs =
      FusedFunction::apply(a.q, a.k, a.v, a.beta, optional(a.log_gate), optional(a.state), a, keep);
  return {outputs[0], outputs[1]};
}

}  // namespace dp
