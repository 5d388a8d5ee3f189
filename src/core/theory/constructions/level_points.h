// The states of an automaton as vectors of length 1, and its maps as factors.
//
// Points are unit vectors up to sign, or the corners of a regular polygon if all of the automaton's permutations turn or
// mirror one. A map of the states is a product of factors: swaps of unit vectors, reflections of a polygon, a reset for a
// constant map (the gate closes and another point is written), and copies of one unit vector onto another where the
// architecture is RWKV-7.
//
// Why up to sign: the reflection along e_i - e_j swaps the two vectors, but half of its key is negative, and so small
// before it is brought to length 1 that the 1e-6 in that norm shortens it (network.h). Each swap would lose part of the
// state. The reflection along e_i + e_j takes e_i to -e_j and e_j to -e_i: also a swap, if e and -e mean the same, and its
// key is exact. A state is then moved from place to place for ever, and nothing of it is lost.
#pragma once
#include <cstdint>
#include <vector>

#include "algebra/automaton.h"
#include "theory/network.h"

namespace dp::theory {

/// What one of n_h factors does.
struct LevelFactor {
  enum class Kind { kSwap, kReflect, kCopy, kReset };
  Kind kind;
  Vector k = {};             // kReflect, of a polygon
  int32_t from = 0, to = 0;  // states: kSwap and kCopy have both, kReset has `to`
  bool operator<(const LevelFactor& other) const;
};
using LevelFactors = std::vector<LevelFactor>;  // the first acts first

/// The most states that a polygon has: rounding errors of a million turns must stay below half of the angle between two.
inline constexpr int64_t kMostCorners = 8;

class LevelPoints {
 public:
  /// For states 0 .. size-1 and the maps that occur: a polygon where that takes fewer reflections.
  LevelPoints(int64_t size, const std::vector<StateMap>& maps, Architecture architecture);

  int64_t size() const { return static_cast<int64_t>(points_.size()); }
  int64_t dimension() const { return static_cast<int64_t>(points_.front().size()); }
  const Vector& point(int64_t state) const { return points_[static_cast<size_t>(state)]; }
  bool is_polygon() const { return is_polygon_; }
  /// A map that is a composition of those that occur, as the fewest factors known.
  LevelFactors factors(const StateMap& map) const;
  /// What is read of the state: each entry, or for a polygon on which side of each of some lines it is.
  const std::vector<Vector>& queries() const { return queries_; }
  Reading reading() const { return is_polygon_ ? Reading::kDirection : Reading::kVector; }
  /// For slots with what these queries give: sums of which one exceeds the threshold if the state is this, and all differ
  /// from the threshold by the margin at least. `least` is the shortest that a point may be read.
  std::vector<Terms> state_terms(const std::vector<int64_t>& slots, int64_t state) const;
  double threshold(double least) const;
  double margin(double least) const;

 private:
  Architecture architecture_;
  bool is_polygon_ = false;
  std::vector<int32_t> corner_;  // of a polygon: [state]
  std::vector<Vector> points_, queries_;
};

/// The most factors that one of these maps takes.
int64_t most_factors(const LevelPoints& points, const std::vector<StateMap>& maps);

}  // namespace dp::theory
