// Cross-entropy of rows of logits: loss, prediction and, in place of the logits, their gradient.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/executor.h"

namespace dp {

/// Floats from one row of logits to the next: whole vectors on every target, so that rows have no
/// left-over elements. What lies beyond the vocabulary is overwritten.
constexpr size_t cross_entropy_stride(size_t vocabulary) { return (vocabulary + 15) / 16 * 16; }

struct CrossEntropyRows {
  size_t rows = 0, vocabulary = 0;
  float* logits = nullptr;           // [rows, cross_entropy_stride(vocabulary)]
  const int64_t* targets = nullptr;  // [rows], in 0 .. vocabulary-1 or ignore_index
  int64_t ignore_index = -100;
  double* losses = nullptr;  // [rows], out: log(sum(exp(logits))) - logits[target]; 0 if ignored
  int64_t* predicted = nullptr;  // [rows], out: the first index of the largest logit; or null
};

/// Losses and predictions. The logits end as they were or, with a gradient_scale other than 0, as
/// gradient_scale (softmax(logits) - onehot(target)), zeros in ignored rows. Infinite logits
/// are as in torch: a loss of NaN, unless they are -inf and some other is not. NaN gives NaN.
void cross_entropy(const CrossEntropyRows& rows, float gradient_scale, Executor& executor);

}  // namespace dp
