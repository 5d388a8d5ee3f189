// The gated unit of a feed-forward block: y = silu(gate) up, element by element.
#pragma once
#include <cstddef>

#include "base/executor.h"

namespace dp {

/// gate, up, y [n].
void swiglu_forward(const float* gate, const float* up, size_t n, float* y, Executor& executor);

/// Gradients of sum(y dy): dgate = dy up silu'(gate), dup = dy silu(gate).
void swiglu_backward(const float* gate, const float* up, const float* dy, size_t n, float* dgate,
                     float* dup, Executor& executor);

}  // namespace dp
