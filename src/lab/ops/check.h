// Arguments of delta_product after checking: every path into the operator crosses here once.
#pragma once
#include <vector>

#include "ops/delta_product.h"

namespace dp {

struct DeltaProductArguments {
  at::Tensor q, k, v, beta;      // shapes as in ops/delta_product.h
  at::Tensor log_gate, state;    // undefined when there is none
  std::vector<int64_t> lengths;  // of the packed sequences; empty for a dense batch
  bool packed = false;
  double scale = 1;
  Implementation implementation = Implementation::kReference;  // never kAuto
  int64_t B = 0, T = 0, N = 1, H = 1, K = 1, V = 1;

  /// Leading size of the states: S when packed, else B.
  int64_t num_sequences() const { return packed ? static_cast<int64_t>(lengths.size()) : B; }
  /// The dtype of the arithmetic and of the final state: float32 for the 16-bit types.
  at::ScalarType compute_type() const;
};

/// Throws c10::ValueError with one sentence about the first mistake.
DeltaProductArguments checked_arguments(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const at::Tensor& beta,
                                        const DeltaProductOptions& options);

}  // namespace dp
