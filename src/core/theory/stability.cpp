#include "theory/stability.h"

#include <random>
#include <stdexcept>
#include <utility>

#include "theory/householder.h"
#include "theory/rwkv7.h"

namespace dp::theory {
namespace {

// Follows the product of transitions and the state that inputs drive.
class NormRecorder {
 public:
  explicit NormRecorder(size_t width) : product_(identity(width)), state_(width, 0.0) { record(); }

  /// h <- transition h + input.
  void step(const Matrix& transition, const std::vector<double>& input) {
    product_ = transition * product_;
    state_ = transition * state_;
    for (size_t i = 0; i < state_.size(); ++i) state_[i] += input[i];
    record();
  }
  Norms norms;

 private:
  void record() {
    norms.product.push_back(spectral_norm(product_));
    norms.state.push_back(length(state_));
  }
  Matrix product_;
  std::vector<double> state_;
};

std::vector<double> random_direction(size_t width, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> k(width);
  double norm = 0;
  while (norm < 1e-6) {
    for (double& value : k) value = normal(random);
    norm = length(k);
  }
  for (double& value : k) value /= norm;
  return k;
}

std::vector<double> scaled_direction(std::vector<double> k, double by) {
  for (double& value : k) value *= by;
  return k;
}

void check_recurrence(const RandomRecurrence& r) {
  if (r.width < 1 || r.factors < 1)
    throw std::invalid_argument("delta_product_norms: width and factors must be at least 1, got " +
                                std::to_string(r.width) + " and " + std::to_string(r.factors));
  if (!(0 <= r.least_beta && r.least_beta <= r.most_beta && r.most_beta <= 2))
    throw std::invalid_argument("delta_product_norms: betas must be a range within [0,2], got " +
                                std::to_string(r.least_beta) + " to " +
                                std::to_string(r.most_beta));
  if (!(0 <= r.least_gate && r.least_gate <= 1))
    throw std::invalid_argument("delta_product_norms: least_gate must be in [0,1], got " +
                                std::to_string(r.least_gate));
}

}  // namespace

Norms delta_product_norms(const RandomRecurrence& recurrence) {
  check_recurrence(recurrence);
  std::mt19937_64 random(recurrence.seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const auto between = [&](double low, double high) {
    return low + (high - low) * uniform(random);
  };
  NormRecorder recorder(recurrence.width);
  for (size_t t = 0; t < recurrence.steps; ++t) {
    std::vector<Factor> factors;
    std::vector<double> input(recurrence.width, 0.0);
    for (size_t j = 0; j < recurrence.factors; ++j) {
      factors.push_back({between(recurrence.least_beta, recurrence.most_beta),
                         random_direction(recurrence.width, random)});
      // A factor acts on the inputs of those before it, too.
      input = householder(factors.back()) * input;
      const double value = factors.back().beta * normal(random);
      for (size_t i = 0; i < input.size(); ++i) input[i] += value * factors.back().k[i];
    }
    recorder.step(householder_product(factors, between(recurrence.least_gate, 1)), input);
  }
  return std::move(recorder.norms);
}

Norms unstable_pair_norms(size_t steps, uint64_t seed) {
  const auto [first, second] = unstable_pair();
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  NormRecorder recorder(first.w.size());
  for (size_t t = 0; t < steps; ++t) {
    const Rwkv7Transition<double>& transition = t % 2 == 0 ? first : second;
    recorder.step(transition.matrix(), scaled_direction(transition.k, normal(random)));
  }
  return std::move(recorder.norms);
}

Norms swap_copy_norms(size_t states, size_t steps, uint64_t seed) {
  if (states < 2)
    throw std::invalid_argument("swap_copy_norms: states must be at least 2, got " +
                                std::to_string(states));
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  NormRecorder recorder(states);
  const auto n = static_cast<int32_t>(states);
  for (size_t t = 0; t < steps; ++t) {
    const auto i = static_cast<int32_t>(random() % states);
    const auto j =
        static_cast<int32_t>((static_cast<size_t>(i) + 1 + random() % (states - 1)) % states);
    const Rwkv7Transition<float> transition =
        random() % 2 == 0 ? swap_transition(n, i, j) : copy_transition(n, i, j);
    const std::vector<double> k(transition.k.begin(), transition.k.end());
    recorder.step(transition.matrix(), scaled_direction(k, normal(random)));
  }
  return std::move(recorder.norms);
}

double unstable_pair_radius(double theta) {
  const auto [first, second] = unstable_pair(theta);
  return spectral_radius(first.matrix() * second.matrix());
}

std::vector<NormSeries> stability_series(size_t steps, size_t seeds) {
  std::vector<NormSeries> series = {{"RWKV-7, two transitions in turn", {}},
                                    {"RWKV-7, swaps and copies of 8 states", {}},
                                    {"DeltaProduct, beta = 2", {}},
                                    {"DeltaProduct, beta from 0 to 2", {}},
                                    {"DeltaProduct, gates from 0.9 to 1", {}}};
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    RandomRecurrence recurrence{.steps = steps, .seed = seed};
    series[0].runs.push_back(unstable_pair_norms(steps, seed));
    series[1].runs.push_back(swap_copy_norms(recurrence.width, steps, seed));
    series[3].runs.push_back(delta_product_norms(recurrence));
    recurrence.least_gate = 0.9;
    series[4].runs.push_back(delta_product_norms(recurrence));
    recurrence.least_gate = 1;
    recurrence.least_beta = 2;
    series[2].runs.push_back(delta_product_norms(recurrence));
  }
  return series;
}

}  // namespace dp::theory
