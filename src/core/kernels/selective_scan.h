// The selective scan of Mamba: a diagonal recurrence whose coefficients depend on the token, in float32:
// forward and backward. E channels, N states per channel.
#pragma once
#include <cstddef>

#include "base/executor.h"
#include "kernels/sequences.h"

namespace dp {

/// Packed sequences and their arrays, all contiguous.
struct SelectiveScanInputs : Sequences {
  size_t E = 1, N = 1;                // at least 1
  bool negative_eigenvalues = false;  // eigenvalues a in [-1,1] instead of [0,1]
  const float* x = nullptr;           // [tokens,E]
  const float* dt = nullptr;          // [tokens,E], usually >= 0
  const float* A = nullptr;           // [E,N], usually <= 0
  const float* B = nullptr;           // [tokens,N]
  const float* C = nullptr;           // [tokens,N]
  const float* D = nullptr;           // [E], or null for zeros
  const float* state = nullptr;  // [num_sequences,E,N] h before the first token, or null for zeros
};

/// How many floats a forward pass keeps for the backward pass: h every few tokens.
size_t selective_scan_saved_size(const SelectiveScanInputs& inputs);

/// For each channel e and state n:
///   a_t = exp(dt_t[e] A[e,n]), or 2 exp(dt_t[e] A[e,n]) - 1 with negative eigenvalues
///   h_t[e,n] = a_t h_{t-1}[e,n] + dt_t[e] B_t[n] x_t[e]
///   y_t[e] = sum_n C_t[n] h_t[e,n] + D[e] x_t[e]
struct SelectiveScanOutputs {
  float* y = nullptr;      // [tokens,E]
  float* state = nullptr;  // [num_sequences,E,N] h after the last token; may be the initial state
  float* saved = nullptr;  // [selective_scan_saved_size()], or null if no backward pass will follow
};
void selective_scan_forward(const SelectiveScanInputs& inputs, const SelectiveScanOutputs& outputs,
                            Executor& executor);

/// Gradients of sum(y dy) + sum(final state d_final_state). Every output is overwritten.
struct SelectiveScanGradients {
  const float* saved = nullptr;          // as the forward pass left it
  const float* dy = nullptr;             // [tokens,E]
  const float* d_final_state = nullptr;  // [num_sequences,E,N], or null for zeros
  float* dx = nullptr;                   // as x
  float* ddt = nullptr;                  // as dt
  float* dA = nullptr;                   // as A
  float* dB = nullptr;                   // as B
  float* dC = nullptr;                   // as C
  float* dD = nullptr;                   // as D, or null if not wanted
  float* dstate = nullptr;               // as state, or null if not wanted
};
void selective_scan_backward(const SelectiveScanInputs& inputs,
                             const SelectiveScanGradients& gradients, Executor& executor);

}  // namespace dp
