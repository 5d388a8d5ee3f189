#include "serve/effective_rank.h"

#include <algorithm>
#include <cmath>

namespace dp::serve {
namespace {

constexpr int kMostSweeps = 30;
constexpr double kOrthogonal = 1e-10;  // cosine of two columns

// Singular values by one-sided Jacobi: columns are rotated in pairs until all are orthogonal; their lengths remain.
// `columns` holds `count` columns of `size` numbers, one after another.
std::vector<double> singular_values(std::vector<double> columns, size_t count, size_t size) {
  const auto dot = [&](const double* a, const double* b) {
    double sum = 0;
    for (size_t i = 0; i < size; ++i) sum += a[i] * b[i];
    return sum;
  };
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < kMostSweeps; ++sweep) {
    rotated = false;
    for (size_t p = 0; p < count; ++p)
      for (size_t q = p + 1; q < count; ++q) {
        double *a = &columns[p * size], *b = &columns[q * size];
        const double aa = dot(a, a), bb = dot(b, b), ab = dot(a, b);
        if (!(std::abs(ab) > kOrthogonal * std::sqrt(aa * bb))) continue;
        rotated = true;
        const double tau = (bb - aa) / (2 * ab);
        const double t = (tau >= 0 ? 1 : -1) / (std::abs(tau) + std::sqrt(1 + tau * tau));
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
        for (size_t i = 0; i < size; ++i) {
          const double x = a[i], y = b[i];
          a[i] = c * x - s * y;
          b[i] = s * x + c * y;
        }
      }
  }
  std::vector<double> values;
  for (size_t p = 0; p < count; ++p)
    values.push_back(std::sqrt(dot(&columns[p * size], &columns[p * size])));
  return values;
}

}  // namespace

double effective_rank(std::span<const float> x, size_t K, size_t V) {
  // Fewer and longer columns need fewer rotations: those of x^T if x has more columns than rows.
  const size_t count = std::min(K, V), size = std::max(K, V);
  std::vector<double> columns(K * V);
  for (size_t k = 0; k < K; ++k)
    for (size_t v = 0; v < V; ++v) columns[K < V ? k * V + v : v * K + k] = x[k * V + v];
  const std::vector<double> values = singular_values(std::move(columns), count, size);
  double sum = 0, entropy = 0;
  for (const double value : values) sum += value;
  if (!(sum > 0)) return 0;
  for (const double value : values)
    if (value > 0) entropy -= value / sum * std::log(value / sum);
  return std::exp(entropy);
}

std::vector<std::vector<double>> effective_ranks(const runtime::Model& model,
                                                 const runtime::State& state) {
  std::vector<std::vector<double>> layers;
  for (size_t i = 0; i < state.layers.size(); ++i)
    for (const runtime::StatePart& part : model.blocks()[i].mixer->state_parts()) {
      if (part.name != "recurrent" || part.shape.size() != 3) continue;
      const auto K = static_cast<size_t>(part.shape[1]), V = static_cast<size_t>(part.shape[2]);
      std::vector<double>& heads = layers.emplace_back();
      for (int64_t head = 0; head < part.shape[0]; ++head)
        heads.push_back(
            effective_rank(std::span(state.layers[i])
                               .subspan(part.offset + static_cast<size_t>(head) * K * V, K * V),
                           K, V));
    }
  return layers;
}

}  // namespace dp::serve
