// The delta-product recurrence on raw memory, without a model around it.
#pragma once
#include <cstddef>

#include <deltaproduct/model.h>

namespace deltaproduct {

/// B sequences of T tokens, N factors per token, H heads, K key width, V value width; float32 arrays, row-major. Keys are
/// unit vectors and beta is in [0,2].
struct Recurrence {
  size_t B = 1, T = 1, N = 1, H = 1, K = 1, V = 1;
  float scale = 1;                  // K^-1/2 in a model
  const float* q = nullptr;         // [B,T,H,K]
  const float* k = nullptr;         // [B,T,N,H,K]
  const float* v = nullptr;         // [B,T,N,H,V]
  const float* beta = nullptr;      // [B,T,N,H]
  const float* log_gate = nullptr;  // [B,T,H], or null for no gate
  float* o = nullptr;               // [B,T,H,V]
  float* state = nullptr;           // [B,H,K,V]: read, then replaced; or null for zeros that nobody needs later
};

/// Per token: S *= exp(log_gate); for j < N: S += beta_j k_j (v_j - S^T k_j)^T; o = scale S^T q. Memory stays the caller's.
/// Throws Error where an array or a size is missing.
void run(const Recurrence& recurrence, const Threads& threads = Threads());

}  // namespace deltaproduct
