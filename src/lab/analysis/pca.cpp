#include "analysis/pca.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace dp::analysis {
namespace {

// Keys have unit length; what varies less than float32 resolves does not vary.
constexpr double kNoVariance = 1e-12;

}  // namespace

std::vector<double> Pca::cumulative() const {
  double total = 0, sum = 0;
  for (const double part : variance) total += part;
  std::vector<double> shares;
  for (const double part : variance) {
    sum += part;
    shares.push_back(total > kNoVariance ? std::min(1.0, sum / total) : 1);
  }
  return shares;
}

at::Tensor Pca::coordinates(const at::Tensor& samples, int64_t n) const {
  return at::matmul(samples.to(at::kDouble) - mean, components.slice(0, 0, n).t());
}

Moments::Moments(int64_t width)
    : sum_(at::zeros({width}, at::kDouble)), squares_(at::zeros({width, width}, at::kDouble)) {}

void Moments::add(const at::Tensor& samples) {
  const at::Tensor rows = samples.reshape({-1, sum_.size(0)}).to(at::kDouble);
  count_ += rows.size(0);
  sum_ += rows.sum(0);
  squares_ += at::mm(rows.t(), rows);
}

void Moments::add(const Moments& other) {
  count_ += other.count_;
  sum_ += other.sum_;
  squares_ += other.squares_;
}

Pca Moments::pca(bool centred) const {
  TORCH_CHECK(count_ > 0, "pca: there are no samples.");
  const auto n = static_cast<double>(count_);
  Pca result;
  result.mean = centred ? sum_ / n : at::zeros_like(sum_);
  const auto [values, vectors] =
      at::linalg_eigh(squares_ / n - at::outer(result.mean, result.mean));  // ascending, in columns
  at::Tensor rows = vectors.t().flip(0);
  const at::Tensor largest = rows.gather(1, rows.abs().argmax(1, /*keepdim=*/true));
  result.components = rows * largest.sign();
  const at::Tensor variance = values.flip(0).clamp_min(0).contiguous();
  result.variance.assign(variance.data_ptr<double>(),
                         variance.data_ptr<double>() + variance.numel());
  return result;
}

}  // namespace dp::analysis
