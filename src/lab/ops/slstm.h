// The sLSTM cell of the xLSTM paper (Beck et al. 2024, section 2.2), a baseline.
// B batch, T tokens, H heads, K units per head, S sequences.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/optional.h"

namespace dp {

struct SlstmOptions {
  /// [S,H,4,K]: h, c, n >= 0 and m before each sequence; none: zeros. S = B unless packed
  Optional<at::Tensor> state = {};
  /// [S+1] int32 or int64: sequence s is tokens cu_seqlens[s] .. cu_seqlens[s+1]-1 of a batch with B = 1
  Optional<at::Tensor> cu_seqlens = {};
};

struct SlstmOutput {
  at::Tensor h;      // [B,T,H,K]
  at::Tensor state;  // [S,H,4,K] after the last token; not an alias of the input state
};

/// Per head and token, with u = gates_t + recurrent h_{t-1} for the gates i, f, z, o in this order:
///   c_t = sigmoid(u_f) c_{t-1} + exp(u_i) tanh(u_z);   n_t = sigmoid(u_f) n_{t-1} + exp(u_i)
///   h_t = sigmoid(u_o) c_t / n_t
///   gates      [B,T,H,4,K]: W x_t + b
///   recurrent  [H,4,K,K], row = the unit that receives
/// The state holds c and n divided by exp(m), m the largest exponent so far, so that gates of any size
/// leave them in range. h does not depend on m, which counts as a constant: its gradient is 0.
/// On the CPU in float32, and in 16-bit types computed in float32: a SIMD kernel, once differentiable in
/// gates, recurrent and state through both outputs. Otherwise composed of torch operators, token by token:
/// the reference. Beside 16-bit gates the others may be float32; h has the dtype of the gates, the
/// returned state is then float32. Any strides, T = 0 and B = 0 allowed. Throws InputError.
SlstmOutput slstm(const at::Tensor& gates, const at::Tensor& recurrent,
                  const SlstmOptions& options = {});

}  // namespace dp
