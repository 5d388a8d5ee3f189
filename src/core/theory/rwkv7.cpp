#include "theory/rwkv7.h"

#include <cmath>
#include <stdexcept>

namespace dp::theory {
namespace {

// 2 k (k a) must be 1 in float32. With a = 1 it is not: the float nearest to sqrt(1/2) gives 1 - 2^-24, the
// next one 1 + 2^-23. The latter with a = 1 - 2^-24 gives 1; |k| is then 1 + 7e-8, above 1 by less
// than the spacing of floats there.
constexpr float kSwapKey = 0x1.6a09e8p-1f, kBelowOne = 0x1.fffffep-1f;

}  // namespace

template <class Real>
std::vector<Real> Rwkv7Transition<Real>::apply(std::span<const Real> h) const {
  Real dot = 0;
  for (size_t i = 0; i < h.size(); ++i) {
    const volatile Real scaled = k[i] * a[i];
    const volatile Real product = scaled * h[i];
    dot += product;
  }
  std::vector<Real> result(h.size());
  for (size_t i = 0; i < h.size(); ++i) {
    // Volatile: a fused multiply-add would not round the product, and leave 5e-8 where 0 belongs.
    const volatile Real removed = c * k[i] * dot;
    result[i] = w[i] * h[i] - removed;
  }
  return result;
}

template <class Real>
Matrix Rwkv7Transition<Real>::matrix() const {
  Matrix result(w.size(), w.size());
  for (size_t j = 0; j < w.size(); ++j) {
    std::vector<Real> unit(w.size(), 0);
    unit[j] = 1;
    const std::vector<Real> column = apply(unit);
    for (size_t i = 0; i < w.size(); ++i) result(i, j) = column[i];
  }
  return result;
}

template struct Rwkv7Transition<float>;
template struct Rwkv7Transition<double>;

Rwkv7Transition<float> identity_transition(int32_t n) {
  const auto size = static_cast<size_t>(n);
  std::vector<float> k(size, 0.0f);
  k.at(0) = 1;  // any unit vector: a is 0
  return {.w = std::vector(size, 1.0f), .k = k, .a = std::vector(size, 0.0f)};
}

Rwkv7Transition<float> copy_transition(int32_t n, int32_t from, int32_t to) {
  Rwkv7Transition<float> result = identity_transition(n);
  const auto i = static_cast<size_t>(from), j = static_cast<size_t>(to);
  if (i == j) return result;
  result.k[0] = 0;
  result.k.at(i) = kSwapKey;
  result.k.at(j) = -kSwapKey;
  result.a[i] = kBelowOne;
  return result;
}

Rwkv7Transition<float> swap_transition(int32_t n, int32_t i, int32_t j) {
  Rwkv7Transition<float> result = copy_transition(n, i, j);
  if (i != j) result.a[static_cast<size_t>(j)] = kBelowOne;
  return result;
}

// Seen from the end, the steps assign x_q := x_map[q] to all registers at once: a register whose value nobody
// needs any more may be overwritten, and what remains in the end are cycles.
std::vector<MapStep> map_steps(const StateMap& map) {
  const auto n = static_cast<int32_t>(map.size());
  const auto target = [&](int32_t q) { return map[static_cast<size_t>(q)]; };
  std::vector<int32_t> needed(map.size(), 0), free;
  std::vector<bool> done(map.size(), false);
  for (int32_t q = 0; q < n; ++q) {
    if (target(q) < 0 || target(q) >= n)
      throw std::invalid_argument("map_steps: state " + std::to_string(q) +
                                  " must go to a state from 0 to " + std::to_string(n - 1) +
                                  ", got " + std::to_string(target(q)));
    ++needed[static_cast<size_t>(target(q))];
  }
  for (int32_t q = 0; q < n; ++q)
    if (needed[static_cast<size_t>(q)] == 0) free.push_back(q);
  std::vector<MapStep> copies, steps;
  while (!free.empty()) {
    const int32_t q = free.back(), to = target(q);
    free.pop_back();
    done[static_cast<size_t>(q)] = true;
    copies.push_back({.from = q, .to = to});
    if (--needed[static_cast<size_t>(to)] == 0) free.push_back(to);
  }
  for (int32_t first = 0; first < n; ++first) {  // swaps along a cycle act before all copies
    for (int32_t q = target(first); !done[static_cast<size_t>(first)] && q != first;
         q = target(q)) {
      steps.push_back({.from = first, .to = q, .swap = true});
      done[static_cast<size_t>(q)] = true;
    }
  }
  steps.insert(steps.end(), copies.rbegin(), copies.rend());
  return steps;
}

std::vector<Rwkv7Transition<float>> rwkv7_factors(const StateMap& map) {
  const auto n = static_cast<int32_t>(map.size());
  std::vector<Rwkv7Transition<float>> factors;
  for (const MapStep& step : map_steps(map))
    factors.push_back(step.swap ? swap_transition(n, step.from, step.to)
                                : copy_transition(n, step.from, step.to));
  while (factors.size() < map.size()) factors.push_back(identity_transition(n));
  return factors;
}

std::pair<Rwkv7Transition<double>, Rwkv7Transition<double>> unstable_pair(double theta) {
  const double sine = std::sin(theta), cosine = std::cos(theta);
  return {{.w = {1, 1}, .k = {sine, cosine}, .a = {0, 1}, .c = 1},
          {.w = {1, 1}, .k = {cosine, sine}, .a = {1, 0}, .c = 1}};
}

}  // namespace dp::theory
