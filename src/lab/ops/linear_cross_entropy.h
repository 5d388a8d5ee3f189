// The last projection of a language model and its loss in one, without ever holding all logits.
#pragma once
#include <ATen/core/Tensor.h>

namespace dp {

struct LinearCrossEntropyOutput {
  at::Tensor loss;       // []: mean over the counted rows; 0, with zero gradients, if none counts
  at::Tensor predicted;  // [M] int64: the first index of each row's largest logit
};

/// Cross-entropy of the logits hidden weight^T [M,V] with the targets.
///   hidden   [M,D]
///   weight   [V,D], of hidden's dtype, or float32 beside a 16-bit hidden
///   targets  [M] int64, each in 0 .. V-1, or ignore_index: such rows do not count
/// float32 on CPU walks blocks of rows whose logits take at most 16 MB, or one row if that is more.
/// It computes the gradients right in the forward pass, if any is wanted, and is differentiable
/// once in hidden and weight. bfloat16 and float16 are computed in float32, with a loss in float32.
/// Other dtypes and devices take torch operators on all logits at once. Throws InputError.
LinearCrossEntropyOutput linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                              const at::Tensor& targets,
                                              int64_t ignore_index = -100);

/// The loss of each row [M], without gradient: -log softmax(hidden weight^T)[target]. Every target
/// counts. Arguments, memory and dtypes as above.
at::Tensor token_losses(const at::Tensor& hidden, const at::Tensor& weight,
                        const at::Tensor& targets);

}  // namespace dp
