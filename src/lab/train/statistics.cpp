#include "train/statistics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>
#include <vector>

namespace dp {
namespace {

constexpr double kZ = 1.959964;  // the 97.5 % quantile of the normal distribution

// The 97.5 % quantile of Student's t distribution: tabulated for few degrees of freedom, then a series in 1 / freedom.
double student(size_t freedom) {
  constexpr double kTable[] = {0,      12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
                               2.4469, 2.3646,  2.3060, 2.2622, 2.2281};
  if (freedom < std::size(kTable)) return kTable[freedom];
  const auto n = static_cast<double>(freedom);
  return kZ + (std::pow(kZ, 3) + kZ) / (4 * n) +
         (5 * std::pow(kZ, 5) + 16 * std::pow(kZ, 3) + 3 * kZ) / (96 * n * n);
}

}  // namespace

SeedStatistics seed_statistics(std::span<const double> values, double least, double most) {
  const auto count = static_cast<double>(values.size());
  SeedStatistics result;
  result.count = static_cast<int64_t>(values.size());
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / (count - 1));
  const double half = student(values.size() - 1) * *result.deviation / std::sqrt(count);
  result.interval = Interval{std::max(least, result.mean - half), std::min(most, result.mean + half)};
  return result;
}

Interval bootstrap_interval(std::span<const double> values) {
  constexpr size_t kResamples = 10000;
  std::mt19937_64 random(20250218);
  std::vector<double> means;
  means.reserve(kResamples);
  for (size_t i = 0; i < kResamples; ++i) {
    double sum = 0;
    for (size_t j = 0; j < values.size(); ++j) sum += values[random() % values.size()];  // the bias of % is below 1e-15
    means.push_back(sum / static_cast<double>(values.size()));
  }
  std::ranges::sort(means);
  return {means[kResamples / 40], means[kResamples - 1 - kResamples / 40]};
}

Interval share_interval(double share, int64_t trials) {
  const auto n = static_cast<double>(trials);
  const double scale = 1 + kZ * kZ / n, centre = (share + kZ * kZ / (2 * n)) / scale;
  const double half = kZ * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n)) / scale;
  return {share <= 0 ? 0 : centre - half, share >= 1 ? 1 : centre + half};
}

}  // namespace dp
