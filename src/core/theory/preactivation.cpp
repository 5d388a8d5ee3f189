#include "theory/preactivation.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dp::theory {

double silu(double x) { return x / (1 + std::exp(-x)); }

double inverse_silu(double y) {
  if (!(y >= kLeastSilu))
    throw std::invalid_argument("inverse_silu: " + std::to_string(y) + " is below the least value");
  if (y == 0) return 0;
  double low = kLeastSiluAt, high = std::max(y, 0.0) + 1;  // silu(x) > x - 1/e
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (silu(middle) < y ? low : high) = middle;
  }
  return (low + high) / 2;
}

namespace {

constexpr double kNegligible = 1e-12;

double round_to_bfloat16(double x) {
  if (x == 0) return 0;
  const double unit = std::exp2(std::floor(std::log2(std::abs(x))) - 7);
  return std::nearbyint(x / unit) * unit;
}

std::vector<double> scaled_preactivations(const std::vector<double>& k, double size) {
  std::vector<double> u;
  for (const double entry : k)
    u.push_back(std::abs(entry) < kNegligible ? 0 : inverse_silu(size * entry));
  return u;
}

// The squared distance of the directions of k, a unit vector, and of the SiLUs of u.
double misdirection(const std::vector<double>& k, const std::vector<double>& u) {
  double product = 0, square = 0;
  for (size_t i = 0; i < k.size(); ++i) {
    const double entry = silu(u[i]);
    product += entry * k[i], square += entry * entry;
  }
  const double cosine = product / std::sqrt(square);
  double distance = 0;  // of the parts across k; 1 - cosine would lose all digits
  for (size_t i = 0; i < k.size(); ++i) {
    const double across = silu(u[i]) / std::sqrt(square) - cosine * k[i];
    distance += across * across;
  }
  return distance;
}

}  // namespace

std::vector<double> unit_preactivations(const std::vector<double>& k, Grid grid) {
  // Entries of at most 64 are exact enough in float32. A negative one may be -0.278 at most.
  constexpr double kMost = 64;
  double most = 0, least = 0;
  for (const double entry : k) most = std::max(most, entry), least = std::min(least, entry);
  double size = most > 0 ? kMost / most : 1e30;
  if (least < -kNegligible) size = std::min(size, 0.278 / -least);
  if (grid == Grid::kFloat32) return scaled_preactivations(k, size);

  constexpr int kSizes = 4000;
  std::vector<double> best;
  double smallest = 0;
  for (int i = 0; i < kSizes; ++i) {
    std::vector<double> u =
        scaled_preactivations(k, size * std::exp2(-static_cast<double>(i) / kSizes));
    for (double& entry : u) entry = round_to_bfloat16(entry);
    const double error = misdirection(k, u);
    if (best.empty() || error < smallest) smallest = error, best = std::move(u);
  }
  return best;
}

}  // namespace dp::theory
