#include "theory/readout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace dp::theory {
namespace {

std::vector<double> sorted_values(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

}  // namespace

double sufficient_base(std::span<const double> values) {
  const std::vector<double> sorted = sorted_values(values);
  if (sorted.size() < 2) return 1;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 1; i < sorted.size(); ++i) least = std::min(least, sorted[i] - sorted[i - 1]);
  return (sorted.back() - sorted.front()) / least + 1;
}

std::vector<double> readout_query(double base, size_t d) {
  std::vector<double> q(d);
  double power = 1, sum = 0;
  for (double& value : q) {
    value = power *= base;
    sum += power * power;
  }
  for (double& value : q) value /= std::sqrt(sum);
  return q;
}

double read_out(std::span<const double> h, std::span<const double> q, double eps) {
  const double x = std::inner_product(h.begin(), h.end(), q.begin(), 0.0);
  return x / std::sqrt(eps + x * x);
}

ReadoutCheck check_readout(std::span<const double> values, size_t d, double base, double eps) {
  if (!(eps > 0))
    throw std::invalid_argument("check_readout: eps must be positive, got " + std::to_string(eps));
  const std::vector<double> entries = sorted_values(values);
  constexpr int64_t kMostStates = 1'000'000;
  int64_t states = 1;
  for (size_t i = 0; i < d; ++i)
    if ((states *= static_cast<int64_t>(entries.size())) > kMostStates)
      throw std::invalid_argument("check_readout: at most a million states can be tried, got " +
                                  std::to_string(entries.size()) + " values to the power " +
                                  std::to_string(d));
  const std::vector<double> q = readout_query(base, d);
  const auto state = [&](int64_t number) {  // its digits choose the values
    std::vector<double> h(d);
    for (double& value : h) {
      value = entries[static_cast<size_t>(number) % entries.size()];
      number /= static_cast<int64_t>(entries.size());
    }
    return h;
  };
  std::vector<std::pair<double, int64_t>> outputs;
  for (int64_t i = 0; i < states; ++i) outputs.emplace_back(read_out(state(i), q, eps), i);
  std::ranges::sort(outputs);
  ReadoutCheck check{.states = states, .distinct = 1, .distinct_in_float = 1, .collision = {}};
  for (size_t i = 1; i < outputs.size(); ++i) {
    const auto& [before, b] = outputs[i - 1];
    const auto& [after, a] = outputs[i];
    const bool same = after - before <= 1e-13 * std::max(std::abs(after), std::abs(before));
    check.distinct += !same;
    check.distinct_in_float += static_cast<float>(after) != static_cast<float>(before);
    if (same && !check.collision) check.collision = {state(b), state(a)};
  }
  return check;
}

}  // namespace dp::theory
