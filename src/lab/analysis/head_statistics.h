// Means over the occurrences of each element, for one head.
// R occurrences, E elements, F factors per element, K key width.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "analysis/analysis.h"
#include "analysis/pca.h"

namespace dp::analysis {

class HeadStatistics {
 public:
  HeadStatistics(int64_t elements, int64_t factors, int64_t key_width);

  /// elements [R] int64, k [R,F,K], beta [R,F], gate [R]
  void add(const at::Tensor& elements, const at::Tensor& k, const at::Tensor& beta,
           const at::Tensor& gate);
  /// Occurrences of each element, [E] int64.
  const at::Tensor& counts() const { return counts_; }
  /// Everything but layer, head and scores. Every element must have occurred.
  Head finish(bool exact) const;

 private:
  at::Tensor counts_;                // [E]
  at::Tensor beta_, beta_squares_;   // [E,F] sums, double like all below
  at::Tensor keys_;                  // [E,F,K]
  at::Tensor gate_;                  // [E]
  at::Tensor matrix_, matrix_norm_;  // [E,K,K] of transitions, [E] of their squared norms
  std::vector<Moments> moments_;     // [F] of keys
};

}  // namespace dp::analysis
