// How long states become: the recurrence h <- A_t h + input, with A_t of DeltaProduct or of RWKV-7.
//
// A transition of DeltaProduct, gate in [0,1] times a product of factors I - beta k k^T with beta in [0,2], has
// a spectral norm of at most 1, and so has any product of them. Transitions of RWKV-7 need not: swaps and
// copies of n states have products of norm up to sqrt(n), and the pair of unstable_pair() has none that holds.
#pragma once
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "theory/matrix.h"

namespace dp::theory {

/// Both over time, [steps + 1].
struct Norms {
  std::vector<double> product;  // spectral norm of A_t .. A_1; 1 at first
  std::vector<double> state;    // length of h, which starts at 0 and is driven by random inputs
};

/// Directions are uniform on the sphere, betas and gates uniform in their ranges, values normal.
struct RandomRecurrence {
  size_t width = 8, factors = 2, steps = 100;
  double least_beta = 0, most_beta = 2;
  double least_gate = 1;  // up to 1; one gate per step, before the factors
  uint64_t seed = 1;
};

/// Throws std::invalid_argument unless width and factors are at least 1, 0 <= least_beta <= most_beta <= 2
/// and 0 <= least_gate <= 1. Inputs are beta k v of each factor, v a number.
Norms delta_product_norms(const RandomRecurrence& recurrence);
/// The two transitions of unstable_pair() in turn; inputs are k v with their k.
Norms unstable_pair_norms(size_t steps, uint64_t seed);
/// A random swap or copy of `states` states per step, inputs as above.
Norms swap_copy_norms(size_t states, size_t steps, uint64_t seed);

/// The spectral radius of the product of unstable_pair(), found numerically; at pi/3 also in closed form.
double unstable_pair_radius(double theta = std::numbers::pi / 3);
inline constexpr double kUnstablePairRadius = 1.2302911524016557;  // (27 + sqrt 153) / 32

/// One line of a chart, with a run per seed.
struct NormSeries {
  std::string label;
  std::vector<Norms> runs;
};
/// What to draw: DeltaProduct with reflections, with betas in [0,2] and with gates, and both of RWKV-7.
std::vector<NormSeries> stability_series(size_t steps, size_t seeds);

}  // namespace dp::theory
