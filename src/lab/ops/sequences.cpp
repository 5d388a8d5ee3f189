#include <ATen/ATen.h>

#include "ops/implementations.h"

namespace dp {
namespace {

// Parts of x along `dim`; as many undefined tensors when there is no x. Splitting once and not
// slicing per part matters to the backward pass, where each slice would cost a gradient of x's full
// size.
std::vector<at::Tensor> split(const at::Tensor& x, const std::vector<int64_t>& lengths,
                              int64_t dim) {
  if (!x.defined()) return std::vector<at::Tensor>(lengths.size());
  return x.split_with_sizes(lengths, dim);
}

}  // namespace

at::Tensor initial_state(const DeltaProductArguments& a) {
  if (a.state.defined()) return a.state.to(a.compute_type());
  return at::zeros({a.num_sequences(), a.H, a.K, a.V}, a.q.options().dtype(a.compute_type()));
}

at::Tensor pad_tokens(const at::Tensor& x, int64_t tokens) {
  if (tokens == 0) return x;
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[1] = tokens;
  return at::cat({x, at::zeros(sizes, x.options())}, 1);  // constant_pad_nd refuses an empty batch
}

DeltaProductOutput for_each_sequence(
    const DeltaProductArguments& a,
    const std::function<DeltaProductOutput(const DeltaProductArguments&)>& dense) {
  if (!a.packed) return dense(a);
  // No sequence at all: a dense batch of none has the right empty outputs.
  if (a.lengths.empty()) return {at::zeros({1, 0, a.H, a.V}, a.q.options()), initial_state(a)};
  const auto q = split(a.q, a.lengths, 1), k = split(a.k, a.lengths, 1),
             v = split(a.v, a.lengths, 1), beta = split(a.beta, a.lengths, 1),
             log_gate = split(a.log_gate, a.lengths, 1),
             state = split(a.state, std::vector<int64_t>(a.lengths.size(), 1), 0);
  std::vector<at::Tensor> o, final_state;
  for (size_t s = 0; s < a.lengths.size(); ++s) {
    DeltaProductArguments one = a;
    one.q = q[s], one.k = k[s], one.v = v[s], one.beta = beta[s];
    one.log_gate = log_gate[s], one.state = state[s];
    one.packed = false, one.lengths.clear();
    one.T = a.lengths[s];
    const DeltaProductOutput output = dense(one);
    o.push_back(output.o);
    final_state.push_back(output.state);
  }
  return {at::cat(o, 1), at::cat(final_state, 0)};
}

}  // namespace dp
