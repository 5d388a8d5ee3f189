// Packed sequences: a batch [1,T,...] that holds sequences end to end, cu_seqlens [S+1] saying where they begin and end.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace dp {

/// What can be checked without reading cu_seqlens, of which undefined means none: int32 or int64 of shape [S+1], beside a
/// tensor x [1,T,...].
void check_cu_seqlens(const char* op, const at::Tensor& cu_seqlens, const char* name,
                      const at::Tensor& x);

/// S, or B without cu_seqlens.
int64_t num_sequences(const at::Tensor& x, const at::Tensor& cu_seqlens);

/// Where sequences begin and end among the tokens of x [B,T,...] laid end to end, [S+1]; without cu_seqlens 0, T, ..., B T.
/// Throws InputError unless cu_seqlens goes from 0 to T without decreasing.
std::vector<int64_t> sequence_offsets(const char* op, const at::Tensor& x,
                                      const at::Tensor& cu_seqlens);

/// {y [B,T,...], state [B,...]} of a dense batch from tensors [B,T,...] and [B,...]; optional ones may be undefined.
using DenseForm = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& tokens,
                                                        const std::vector<at::Tensor>& states)>;

/// Runs `dense` on the batch or, with cu_seqlens, on one sequence after another, each a batch of one, so that the work is
/// linear in the tokens however unequal the lengths.
std::vector<at::Tensor> for_each_sequence(const char* op, const std::vector<at::Tensor>& tokens,
                                          const std::vector<at::Tensor>& states,
                                          const at::Tensor& cu_seqlens, const DenseForm& dense);

}  // namespace dp
