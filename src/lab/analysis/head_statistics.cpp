#include "analysis/head_statistics.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "analysis/transition.h"

namespace dp::analysis {
namespace {

// Transition matrices at once: 32 MB.
constexpr int64_t kMatrixEntries = int64_t{1} << 22;

std::vector<double> to_vector(const at::Tensor& x) {
  const at::Tensor values = x.to(at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

Table to_table(const at::Tensor& x) {
  Table rows;
  for (int64_t i = 0; i < x.size(0); ++i) rows.push_back(to_vector(x[i]));
  return rows;
}

std::vector<std::vector<std::complex<double>>> to_complex_table(const at::Tensor& x) {
  std::vector<std::vector<std::complex<double>>> rows;
  const at::Tensor values = x.contiguous();
  const auto* value = values.data_ptr<c10::complex<double>>();
  for (int64_t i = 0; i < x.size(0); ++i) {
    auto& row = rows.emplace_back();
    for (int64_t j = 0; j < x.size(1); ++j, ++value) row.emplace_back(value->real(), value->imag());
  }
  return rows;
}

KeySpace key_space(const Moments& moments) {
  return {moments.pca(true).cumulative(), moments.pca(false).cumulative()};
}

}  // namespace

HeadStatistics::HeadStatistics(int64_t elements, int64_t factors, int64_t key_width)
    : counts_(at::zeros({elements}, at::kLong)),
      beta_(at::zeros({elements, factors}, at::kDouble)),
      beta_squares_(at::zeros_like(beta_)),
      keys_(at::zeros({elements, factors, key_width}, at::kDouble)),
      gate_(at::zeros({elements}, at::kDouble)),
      matrix_(at::zeros({elements, key_width, key_width}, at::kDouble)),
      matrix_norm_(at::zeros({elements}, at::kDouble)) {
  for (int64_t j = 0; j < factors; ++j) moments_.emplace_back(key_width);
}

void HeadStatistics::add(const at::Tensor& elements, const at::Tensor& k, const at::Tensor& beta,
                         const at::Tensor& gate) {
  const at::Tensor keys = k.to(at::kDouble), betas = beta.to(at::kDouble),
                   gates = gate.to(at::kDouble);
  counts_.index_add_(0, elements, at::ones_like(elements));
  beta_.index_add_(0, elements, betas);
  beta_squares_.index_add_(0, elements, betas.square());
  keys_.index_add_(0, elements, keys);
  gate_.index_add_(0, elements, gates);
  for (size_t j = 0; j < moments_.size(); ++j)
    moments_[j].add(keys.select(1, static_cast<int64_t>(j)));
  const int64_t R = elements.size(0), K = keys.size(2);
  const int64_t step = std::max<int64_t>(1, kMatrixEntries / (K * K));
  for (int64_t first = 0; first < R; first += step) {
    const int64_t last = std::min(R, first + step);
    const at::Tensor A = transition_matrices(
        keys.slice(0, first, last), betas.slice(0, first, last), gates.slice(0, first, last));
    const at::Tensor which = elements.slice(0, first, last);
    matrix_.index_add_(0, which, A);
    matrix_norm_.index_add_(0, which, A.square().sum({1, 2}));
  }
}

Head HeadStatistics::finish(bool exact) const {
  const at::Tensor n = counts_.to(at::kDouble), column = n.unsqueeze(1), cube = column.unsqueeze(2);
  const at::Tensor beta = beta_ / column, keys = keys_ / cube, gate = gate_ / n,
                   matrix = matrix_ / cube;
  Head head;
  head.beta = to_table(beta);
  head.beta_std = to_table((beta_squares_ / column - beta.square()).clamp_min(0).sqrt());
  head.gate = to_vector(gate);
  const int64_t F = keys.size(1), K = keys.size(2);
  head.eigenvalues =
      to_complex_table(eigenvalues(matrix, gate).slice(1, 0, exact ? std::min(F, K) : K));
  head.spread = to_vector((matrix_norm_ / n - matrix.square().sum({1, 2})).clamp_min(0).sqrt());

  Moments all(K);
  for (const Moments& moments : moments_) {
    head.factor_keys.push_back(key_space(moments));
    all.add(moments);
  }
  head.keys = key_space(all);
  const at::Tensor places = all.pca(true).coordinates(keys, 3);  // [E,F,3], or fewer than 3
  head.coordinates.resize(static_cast<size_t>(F));
  for (int64_t j = 0; j < F; ++j)
    for (const std::vector<double>& place : to_table(places.select(1, j))) {
      auto& coordinates = head.coordinates[static_cast<size_t>(j)].emplace_back();
      std::ranges::copy(place, coordinates.begin());
    }
  return head;
}

}  // namespace dp::analysis
