#include "ops/packed_sequences.h"

#include <ATen/ATen.h>

#include "base/check_input.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

// Parts of each tensor along `dim`; undefined tensors have undefined parts. Splitting once instead of slicing per part
// matters to the backward pass, where each slice would cost a gradient of the tensor's full size.
std::vector<std::vector<at::Tensor>> split_all(const std::vector<at::Tensor>& tensors,
                                               const std::vector<int64_t>& lengths, int64_t dim) {
  std::vector<std::vector<at::Tensor>> parts(lengths.size());
  for (const at::Tensor& x : tensors) {
    const std::vector<at::Tensor> split =
        x.defined() ? x.split_with_sizes(lengths, dim) : std::vector<at::Tensor>(lengths.size());
    for (size_t s = 0; s < lengths.size(); ++s) parts[s].push_back(split[s]);
  }
  return parts;
}

}  // namespace

void check_cu_seqlens(const char* op, const at::Tensor& cu_seqlens, const char* name,
                      const at::Tensor& x) {
  if (!cu_seqlens.defined()) return;
  const at::ScalarType type = cu_seqlens.scalar_type();
  DP_CHECK_INPUT(type == at::kInt || type == at::kLong, op,
                 ": cu_seqlens must be int32 or int64, got ", dtype_name(type), ".");
  DP_CHECK_INPUT(cu_seqlens.dim() == 1 && cu_seqlens.size(0) >= 1, op,
                 ": cu_seqlens must have shape [S+1] for S sequences, got ", cu_seqlens.sizes(),
                 ".");
  DP_CHECK_INPUT(cu_seqlens.device().is_cpu() || cu_seqlens.device() == x.device(), op,
                 ": cu_seqlens must be on cpu or on ", x.device(), " like ", name, ", got ",
                 cu_seqlens.device(), ".");
  DP_CHECK_INPUT(x.size(0) == 1, op, ": B must be 1 with cu_seqlens, got ", name, " of shape ",
                 x.sizes(), "; lay the sequences end to end along T.");
}

int64_t num_sequences(const at::Tensor& x, const at::Tensor& cu_seqlens) {
  return cu_seqlens.defined() ? cu_seqlens.size(0) - 1 : x.size(0);
}

std::vector<int64_t> sequence_offsets(const char* op, const at::Tensor& x,
                                      const at::Tensor& cu_seqlens) {
  const int64_t T = x.size(1);
  std::vector<int64_t> offsets;
  if (!cu_seqlens.defined()) {
    for (int64_t b = 0; b <= x.size(0); ++b) offsets.push_back(b * T);
    return offsets;
  }
  const at::Tensor on_cpu = cu_seqlens.detach().to(at::kCPU, at::kLong).contiguous();
  offsets.assign(on_cpu.data_ptr<int64_t>(), on_cpu.data_ptr<int64_t>() + on_cpu.size(0));
  DP_CHECK_INPUT(offsets[0] == 0, op, ": cu_seqlens must start at 0, got ", offsets[0], ".");
  for (size_t i = 1; i < offsets.size(); ++i)
    DP_CHECK_INPUT(offsets[i - 1] <= offsets[i], op, ": cu_seqlens must not decrease, got ",
                   offsets[i - 1], " then ", offsets[i], " at index ", i, ".");
  DP_CHECK_INPUT(offsets.back() == T, op, ": cu_seqlens must end at T = ", T, ", got ",
                 offsets.back(), ".");
  return offsets;
}

std::vector<at::Tensor> for_each_sequence(const char* op, const std::vector<at::Tensor>& tokens,
                                          const std::vector<at::Tensor>& states,
                                          const at::Tensor& cu_seqlens, const DenseForm& dense) {
  if (!cu_seqlens.defined()) return dense(tokens, states);
  const std::vector<int64_t> offsets = sequence_offsets(op, tokens[0], cu_seqlens);
  std::vector<int64_t> lengths;
  for (size_t s = 1; s < offsets.size(); ++s) lengths.push_back(offsets[s] - offsets[s - 1]);
  if (lengths.empty()) {  // no tokens either: a dense batch of none
    std::vector<at::Tensor> no_tokens;
    for (const at::Tensor& x : tokens) no_tokens.push_back(x.defined() ? x.slice(0, 0, 0) : x);
    const auto none = dense(no_tokens, states);
    std::vector<int64_t> sizes = none[0].sizes().vec();
    sizes[0] = 1;
    return {none[0].reshape(sizes), none[1]};
  }
  const auto token_parts = split_all(tokens, lengths, 1);
  const auto state_parts = split_all(states, std::vector<int64_t>(lengths.size(), 1), 0);
  std::vector<at::Tensor> y, state;
  for (size_t s = 0; s < lengths.size(); ++s) {
    const auto part = dense(token_parts[s], state_parts[s]);
    y.push_back(part[0]);
    state.push_back(part[1]);
  }
  return {at::cat(y, 1), at::cat(state, 0)};
}

}  // namespace dp
