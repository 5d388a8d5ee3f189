// Root-mean-square normalisation of rows, plain or with a SiLU gate. D elements per row.
//   y = x r weight [silu(gate)],  r = (mean(x^2) + eps)^-1/2
#pragma once
#include <cstddef>

#include "base/executor.h"

namespace dp {

struct RmsNormInputs {
  size_t rows = 0, D = 0;
  double eps = 0;                 // > 0
  const float* x = nullptr;       // [rows,D]
  const float* weight = nullptr;  // [D]
  const float* gate = nullptr;    // [rows,D], or null for none
};

/// y [rows,D].
void rms_norm_forward(const RmsNormInputs& inputs, float* y, Executor& executor);

/// Gradients of sum(y dy). They need nothing but the inputs: r costs no further pass over memory.
struct RmsNormGradients {
  const float* dy = nullptr;  // [rows,D]
  float* dx = nullptr;        // [rows,D]
  float* dweight = nullptr;   // [D]
  float* dgate = nullptr;     // [rows,D]; only with a gate
};
void rms_norm_backward(const RmsNormInputs& inputs, const RmsNormGradients& gradients,
                       Executor& executor);

}  // namespace dp
