// Transitions of RWKV-7, diag(w) - c k (k*a)^T with w, a in [0,1]^n and |k| = 1, where * goes entry by entry.
//
// With c = 2 and k = (e_i - e_j) / sqrt 2 such a matrix swaps two states, or moves one onto another (a copy),
// which no Householder product can: any map of n states is a product of at most n - 1 of these, so that one
// layer with n transitions per token follows any finite automaton. The price is stability: with c = 1, too,
// there are pairs of transitions whose product grows without bound.
#pragma once
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "algebra/automaton.h"
#include "theory/matrix.h"

namespace dp::theory {

template <class Real>
struct Rwkv7Transition {
  std::vector<Real> w, k, a;  // [n] each
  Real c = 2;

  /// (diag(w) - c k (k*a)^T) h, as w*h - (c k) ((k*a) . h) and rounded at each of these operations.
  std::vector<Real> apply(std::span<const Real> h) const;
  /// Its columns are what apply() makes of unit vectors.
  Matrix matrix() const;
};
extern template struct Rwkv7Transition<float>;
extern template struct Rwkv7Transition<double>;

/// Each does in float32 arithmetic exactly what it says, on any vector of zeros and ones with a single one.
Rwkv7Transition<float> identity_transition(int32_t n);
Rwkv7Transition<float> swap_transition(int32_t n, int32_t i, int32_t j);
/// State `from` goes to state `to`, all others stay.
Rwkv7Transition<float> copy_transition(int32_t n, int32_t from, int32_t to);

/// One step of a map of states: `from` goes to `to`, and if it is a swap, `to` to `from`.
struct MapStep {
  int32_t from = 0, to = 0;
  bool swap = false;
};
/// The steps, the first acting first, whose composition is the map. They are as few as possible: n less
/// the number of connected parts of the graph with an edge between q and map[q] for every state q.
/// Throws std::invalid_argument if an entry of the map is no state.
std::vector<MapStep> map_steps(const StateMap& map);
/// These as transitions, filled up with identities: n of them, the first acting first.
std::vector<Rwkv7Transition<float>> rwkv7_factors(const StateMap& map);

/// Two transitions of n = 2 states with w = (1, 1), c = 1: the first has k = (sin theta, cos theta) and
/// a = (0, 1), the second k = (cos theta, sin theta) and a = (1, 0). The spectral radius of their product is
/// (27 + sqrt 153) / 32 = 1.2303 at theta = pi/3, and above 1 just between pi/4 and pi/2. (The paper's text has
/// the two k the other way round, which would give 0.58; its matrices are these.)
std::pair<Rwkv7Transition<double>, Rwkv7Transition<double>> unstable_pair(
    double theta = std::numbers::pi / 3);

}  // namespace dp::theory
