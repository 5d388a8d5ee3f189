// Principal components of vectors that come in batches.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace dp::analysis {

/// K directions, those along which the samples vary most first.
struct Pca {
  at::Tensor mean;        // [K] double, what was subtracted: zeros unless centred
  at::Tensor components;  // [K,K] double, a unit row per direction, its largest entry positive
  std::vector<double> variance;  // [K] along each direction, descending; over n, not n - 1

  /// Shares [K] of the whole variance that the first 1, 2, .. directions hold. All 1 where nothing
  /// varies.
  std::vector<double> cumulative() const;
  /// samples [...,K] -> [...,n], coordinates along the first n directions.
  at::Tensor coordinates(const at::Tensor& samples, int64_t n) const;
};

/// Sums of x and x x^T: enough for the principal components of any number of samples.
class Moments {
 public:
  explicit Moments(int64_t width);
  void add(const at::Tensor& samples);  // [...,K]
  void add(const Moments& other);

  /// Components of the covariance or, uncentred, of the mean of x x^T, where directions that all samples share
  /// count too. Needs at least one sample.
  Pca pca(bool centred) const;

 private:
  int64_t count_ = 0;
  at::Tensor sum_, squares_;  // [K], [K,K], double
};

}  // namespace dp::analysis
