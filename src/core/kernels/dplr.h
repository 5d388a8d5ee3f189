// The recurrence with diagonal-plus-rank-one transitions that the baselines have in common.
// S sequences, N factors per token, H heads, K key width, V value width.
//   H <- diag(w) H + a (b^T H) + k v^T,  N times per token;  o = H^T q
// GLA and mLSTM have no a and b; RWKV-7 has a = -c k, b = k * a'. The delta rule is w = 1, a = -beta k, b = k,
// but delta_product.h, whose chunks are matrix products, is several times as fast at it.
#pragma once
#include <cstddef>

#include "base/executor.h"
#include "kernels/sequences.h"

namespace dp {

struct DplrInputs : Sequences {
  size_t N = 1, H = 0, K = 0, V = 0;
  const float* q = nullptr;      // [tokens,H,K]
  const float* w = nullptr;      // [tokens,N,H,K]
  const float* k = nullptr;      // [tokens,N,H,K]
  const float* v = nullptr;      // [tokens,N,H,V]
  const float* a = nullptr;      // [tokens,N,H,K], or null with b: no rank-one part
  const float* b = nullptr;      // [tokens,N,H,K]
  const float* state = nullptr;  // [S,H,K,V], or null: zeros
};

/// How many floats forward keeps for backward: the state before every few tokens.
size_t dplr_saved_size(const DplrInputs& inputs);

/// o [tokens,H,V], final_state [S,H,K,V]; saved may be null if no backward pass follows.
void dplr_forward(const DplrInputs& inputs, float* o, float* final_state, float* saved,
                  Executor& executor);

/// Gradients of sum(o d_o) + sum(final_state d_final_state), shaped like what they belong to.
struct DplrGradients {
  const float* d_o = nullptr;
  const float* d_final_state = nullptr;  // or null: zeros
  float *dq = nullptr, *dw = nullptr, *dk = nullptr, *dv = nullptr;
  float *da = nullptr, *db = nullptr;  // with a and b
  float* dstate = nullptr;             // or null: not wanted
};
void dplr_backward(const DplrInputs& inputs, const float* saved, const DplrGradients& gradients,
                   Executor& executor);

}  // namespace dp
