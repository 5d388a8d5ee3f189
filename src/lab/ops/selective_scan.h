// The recurrence of Mamba: diagonal, with coefficients that depend on the token.
// B batch (in shapes; B is also the name of a tensor), T tokens, E channels, N states per channel, S sequences.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/optional.h"

namespace dp {

struct SelectiveScanOptions {
  /// [E]; none: zeros
  Optional<at::Tensor> D = {};
  /// [S,E,N]: h before each sequence's first token; none: zeros. S = B unless packed
  Optional<at::Tensor> state = {};
  /// [S+1] int32 or int64: sequence s is tokens cu_seqlens[s] .. cu_seqlens[s+1]-1 of a batch with B = 1
  Optional<at::Tensor> cu_seqlens = {};
  /// Eigenvalues a in [-1,1] instead of [0,1]
  bool negative_eigenvalues = false;
};

struct SelectiveScanOutput {
  at::Tensor y;      // [B,T,E]
  at::Tensor state;  // [S,E,N]: h after the last token; not an alias of the initial state
};

/// For each channel e and state n:
///   a_t = exp(dt_t[e] A[e,n]), or 2 exp(dt_t[e] A[e,n]) - 1 with negative eigenvalues
///   h_t[e,n] = a_t h_{t-1}[e,n] + dt_t[e] B_t[n] x_t[e]
///   y_t[e] = sum_n C_t[n] h_t[e,n] + D[e] x_t[e]
///   x, dt [B,T,E], dt usually >= 0;   A [E,N] usually <= 0;   B, C [B,T,N]
/// On the CPU in float32, and in 16-bit types computed in float32: a SIMD kernel, once differentiable in
/// each tensor through both outputs, which keeps h of every 16th token. Otherwise composed of torch
/// operators, token by token. Beside a 16-bit x the others may be float32; the returned state is then
/// float32. Any strides. Throws InputError.
SelectiveScanOutput selective_scan(const at::Tensor& x, const at::Tensor& dt, const at::Tensor& A,
                                   const at::Tensor& B, const at::Tensor& C,
                                   const SelectiveScanOptions& options = {});

}  // namespace dp
