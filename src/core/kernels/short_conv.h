// Causal depthwise convolution over time, SiLU and L2 norm of each head in one pass over memory, in
// float32: forward and backward.
#pragma once
#include <cstddef>

#include "base/executor.h"
#include "kernels/sequences.h"

namespace dp {

/// Packed sequences and their arrays, all contiguous.
struct ShortConvInputs : Sequences {
  size_t C = 1;                    // channels
  size_t W = 0;                    // taps; 0 without a convolution
  size_t head_size = 0;            // channels of a head, a divisor of C; 0 without a norm
  const float* x = nullptr;        // [tokens,C]
  const float* weight = nullptr;   // [C,W], the current token's tap last
  const float* bias = nullptr;     // [C], or null for zeros; only with a convolution
  const float* history = nullptr;  // [num_sequences,W,C] before each sequence's first token, oldest
                                   // first, or null for zeros; only with a convolution
};

/// With tokens before a sequence's start taken from its history:
///   z_t = bias + sum_w weight[:,w] x_{t-(W-1)+w}   (z = x without a convolution)
///   s_t = z_t sigmoid(z_t),   y_t = s_t / sqrt(|s_t|^2 + 1e-6) per head   (y = s without a norm)
void short_conv_forward(const ShortConvInputs& inputs, float* y, Executor& executor);

/// Gradients of sum(y dy). Every output is overwritten; all but dx may be null. z is computed anew, so
/// that a forward pass keeps nothing.
struct ShortConvGradients {
  const float* dy = nullptr;  // [tokens,C]
  float* dx = nullptr;        // as x
  float* dweight = nullptr;   // as weight
  float* dbias = nullptr;     // as bias
  float* dhistory = nullptr;  // as history; its oldest row is never read, so its gradient is 0
};

void short_conv_backward(const ShortConvInputs& inputs, const ShortConvGradients& gradients,
                         Executor& executor);

}  // namespace dp
