// The sLSTM cell of the xLSTM paper (Beck et al. 2024, section 2.2): a scalar memory per unit, exponential
// input gate, units of a head connected through time. Float32, forward and backward. H heads, K units.
#pragma once
#include <cstddef>

#include "base/executor.h"
#include "kernels/sequences.h"

namespace dp {

/// Packed sequences and their arrays, all contiguous. Gates come in the order i (input), f (forget), z (cell input),
/// o (output).
struct SlstmInputs : Sequences {
  size_t H = 1, K = 1;
  const float* gates = nullptr;      // [tokens,H,4,K]: W x_t + b
  const float* recurrent = nullptr;  // [H,4,K,K], row = the unit that receives
  const float* state = nullptr;      // [num_sequences,H,4,K]: h, c, n >= 0, m; or null for zeros
};

/// Per head, with h_{-1}, c, n and m from the state and m = -infinity where n = 0 (a state of zeros is
/// none):
///   u = gates_t + R h_{t-1};   a = log sigmoid(u_f) + m_{t-1};   m_t = max(a, u_i)
///   i = exp(u_i - m_t);   f = exp(a - m_t)
///   c_t = f c_{t-1} + i tanh(u_z);   n_t = f n_{t-1} + i;   h_t = sigmoid(u_o) c_t / n_t
/// One of i and f is 1, so n_t >= min(1, n_{-1}) with a state and n_t >= 1 without one: the division is
/// safe. h [tokens,H,K], final_state like state; an empty sequence hands its state on. saved, of
/// slstm_saved_size floats, is for the backward pass; null: none follows.
void slstm_forward(const SlstmInputs& inputs, float* h, float* final_state, float* saved,
                   Executor& executor);
size_t slstm_saved_size(const SlstmInputs& inputs);

/// Gradients of sum(h dh) + sum(final_state d_final_state). h does not depend on m, which only keeps
/// exponentials in range: m counts as a constant, its gradients are not read and are written as 0. That is
/// also right for a sequence in pieces that hand the state on. Every output is overwritten; all but
/// dgates may be null.
struct SlstmGradients {
  const float* dh = nullptr;             // as h
  const float* d_final_state = nullptr;  // as state, or null for zeros
  float* dgates = nullptr;               // as gates
  float* drecurrent = nullptr;           // as recurrent
  float* dstate = nullptr;               // as state
};
void slstm_backward(const SlstmInputs& inputs, const float* h, const float* saved,
                    const SlstmGradients& gradients, Executor& executor);

}  // namespace dp
