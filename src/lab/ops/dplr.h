// The recurrence with diagonal-plus-rank-one transitions on torch tensors.
// B batch, T tokens, N factors per token, H heads, K key width, V value width, S packed sequences.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/optional.h"

namespace dp {

struct DplrOptions {
  Optional<at::Tensor> a = {}, b = {};   // [B,T,N,H,K] both, or neither: no rank-one part
  Optional<at::Tensor> state = {};       // [S,H,K,V] before the first token; none: zeros
  Optional<at::Tensor> cu_seqlens = {};  // [S+1]: B is 1 and holds S sequences; else S = B
};

struct DplrOutput {
  at::Tensor o;      // [B,T,H,V]
  at::Tensor state;  // [S,H,K,V] after the last token
};

/// Per token, N times: H <- diag(w) H + a (b^T H) + k v^T; then o = H^T q.
///   q [B,T,H,K]   w, k [B,T,N,H,K]   v [B,T,N,H,V]
/// On the CPU in float32, and in 16-bit types computed in float32: a SIMD kernel, once differentiable in each tensor.
/// Otherwise the recurrence as written in torch operators, which tests compare the kernel with. o has the dtype of q; the
/// state is float32 beside 16-bit types. Throws InputError.
DplrOutput dplr(const at::Tensor& q, const at::Tensor& w, const at::Tensor& k, const at::Tensor& v,
                const DplrOptions& options = {});

}  // namespace dp
