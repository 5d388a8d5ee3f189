// Causal depthwise convolution over time, SiLU and L2 norm of each head: what keys, queries and values
// pass through before the recurrence.
// B batch, T tokens, C channels, W taps, S sequences.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/optional.h"

namespace dp {

struct ShortConvOptions {
  /// [C,W]; none: no convolution, and neither bias nor history
  Optional<at::Tensor> weight = {};
  /// [C]; none: zeros
  Optional<at::Tensor> bias = {};
  /// [S,W,C]: the last W inputs before each sequence, oldest first; none: zeros. S = B unless packed
  Optional<at::Tensor> history = {};
  /// [S+1] int32 or int64: sequence s is tokens cu_seqlens[s] .. cu_seqlens[s+1]-1 of a batch with B = 1
  Optional<at::Tensor> cu_seqlens = {};
  /// > 0: L2 norm of each group of so many channels
  int64_t head_size = 0;
};

/// y [B,T,C] from x [B,T,C], with tokens before a sequence's start taken from its history:
///   z_t = bias + sum_w weight[:,w] x_{t-(W-1)+w}   (the last tap is the current token's; z = x without)
///   s_t = z_t sigmoid(z_t),   y_t = s_t / sqrt(|s_t|^2 + 1e-6) per head   (y = s without heads)
/// On the CPU in float32, and in 16-bit types computed in float32: a SIMD kernel, once differentiable in
/// x, weight, bias and history, which saves nothing but these. Otherwise composed of torch operators.
/// Beside a 16-bit x the others may be float32. Any strides. Throws InputError.
at::Tensor short_conv(const at::Tensor& x, const ShortConvOptions& options = {});

/// The history [S,W,C] after the last token: the last `width` of each sequence's history and x, with
/// zeros before a sequence without history. Outside the graph of gradients.
at::Tensor conv_history(const at::Tensor& x, int64_t width,
                        const Optional<at::Tensor>& history = {},
                        const Optional<at::Tensor>& cu_seqlens = {});

}  // namespace dp
