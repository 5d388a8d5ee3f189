// The recurrence as written in torch operators: slow, simple, differentiable any number of times.
#include <ATen/ATen.h>

#include "ops/delta_product_arguments.h"

namespace dp {
namespace {

// x [B,H,D] as a row per head, times state [B,H,K,V] or back: [B,H,V].
at::Tensor row_times(const at::Tensor& x, const at::Tensor& state) {
  return x.unsqueeze(-2).matmul(state).squeeze(-2);
}

DeltaProductOutput reference_dense(const DeltaProductArguments& a) {
  const at::ScalarType type = a.compute_type();
  // Without tokens one of zeros takes their place, so that the gradients are connected all the
  // same.
  const int64_t padding = a.T == 0 ? 1 : 0;
  // unbind and not select: its backward pass is one stack, linear in T.
  const auto tokens = [&](const at::Tensor& x) {
    return pad_tokens(x.to(type), padding).unbind(1);
  };
  const auto factors = [&](const at::Tensor& x) {
    return pad_tokens(x.to(type), padding).flatten(1, 2).unbind(1);
  };
  const auto q = tokens(a.q), k = factors(a.k), v = factors(a.v), beta = factors(a.beta);
  const auto log_gate = a.log_gate.defined() ? tokens(a.log_gate) : std::vector<at::Tensor>();

  at::Tensor state = initial_state(a);
  std::vector<at::Tensor> o;
  for (size_t t = 0; t < q.size(); ++t) {
    if (a.log_gate.defined()) state = state * log_gate[t].exp().unsqueeze(-1).unsqueeze(-1);
    for (size_t i = t * a.N; i < (t + 1) * a.N; ++i) {
      const at::Tensor u = beta[i].unsqueeze(-1) * (v[i] - row_times(k[i], state));  // [B,H,V]
      state = state + k[i].unsqueeze(-1) * u.unsqueeze(-2);
    }
    o.push_back(row_times(q[t], state) * a.scale);
  }
  return {at::stack(o, 1).narrow(1, 0, a.T).to(a.q.scalar_type()), state};
}

}  // namespace

DeltaProductOutput delta_product_reference(const DeltaProductArguments& arguments) {
  return for_each_sequence(arguments, reference_dense);
}

}  // namespace dp
