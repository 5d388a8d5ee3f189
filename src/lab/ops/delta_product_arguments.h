// Arguments of delta_product after checking, and the three ways to compute it.
#pragma once
#include "ops/delta_product.h"

namespace dp {

struct DeltaProductArguments {
  at::Tensor q, k, v, beta;                // shapes as in ops/delta_product.h
  at::Tensor log_gate, state, cu_seqlens;  // undefined when there is none
  double scale = 1;
  bool normalise_qk = false;
  Implementation implementation = Implementation::kReference;  // never kAuto
  int64_t B = 0, T = 0, N = 1, H = 1, K = 1, V = 1;

  /// The dtype of the arithmetic and of the final state: float32 for the 16-bit types.
  at::ScalarType compute_type() const;
};

/// Throws InputError with one sentence about the first mistake. What cu_seqlens holds is checked when it is read.
DeltaProductArguments checked_arguments(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const at::Tensor& beta,
                                        const DeltaProductOptions& options);

/// While one exists on this thread, error messages suggest repairs in Python instead of C++.
class PythonMessages {
 public:
  PythonMessages();
  ~PythonMessages();
  PythonMessages(const PythonMessages&) = delete;
  PythonMessages& operator=(const PythonMessages&) = delete;
};

/// Each takes checked arguments and returns o in q's dtype and the state in the compute type. The first two are written in
/// torch operators, which torch differentiates; the third calls the kernels.
DeltaProductOutput delta_product_reference(const DeltaProductArguments& arguments);
DeltaProductOutput delta_product_chunked(const DeltaProductArguments& arguments);
DeltaProductOutput delta_product_fused(const DeltaProductArguments& arguments);

/// As delta_product_fused, given that q, k and v are the columns of qkv [B,T,H (2 K + V)].
DeltaProductOutput delta_product_fused_joined(const DeltaProductArguments& arguments,
                                              const at::Tensor& qkv);

/// Runs `dense` on a dense batch as it is, and on packed sequences one after another.
DeltaProductOutput for_each_sequence(const DeltaProductArguments& arguments,
                                     DeltaProductOutput dense(const DeltaProductArguments&));

/// The state to start from in the compute type: the one given, or zeros.
at::Tensor initial_state(const DeltaProductArguments& arguments);

/// x [B,T,...] followed by `tokens` tokens of zeros. A token of zeros leaves the state as it is.
at::Tensor pad_tokens(const at::Tensor& x, int64_t tokens);

}  // namespace dp
