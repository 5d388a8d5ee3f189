// The states of an automaton as vectors of length 1, and its maps as factors.
//
// Points are unit vectors, or the corners of a regular polygon if all of the automaton's permutations turn or mirror
// one. A map of the states is a product of factors: reflections (swaps of unit vectors), a reset for a constant map
// (the gate closes and another point is written), and copies of one unit vector onto another where the architecture
// is RWKV-7.
#pragma once
#include <cstdint>
#include <vector>

#include "algebra/automaton.h"
#include "theory/network.h"

namespace dp::theory {

/// What one of n_h factors does.
struct LevelFactor {
  enum class Kind { kReflect, kCopy, kReset };
  Kind kind;
  Vector k = {};             // kReflect
  int32_t from = 0, to = 0;  // states: kCopy has both, kReset has `to`
  bool operator<(const LevelFactor& other) const;
};
using LevelFactors = std::vector<LevelFactor>;  // the first acts first

/// The most states that a polygon has: rounding errors of a million turns must stay below the angle between two.
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
  /// What the product with a point's own vector must exceed for the state to be that, and by how much it differs
  /// from that at least. `least` is the shortest that a point may be read.
  double threshold(double least) const;
  double margin(double least) const;

 private:
  Architecture architecture_;
  bool is_polygon_ = false;
  std::vector<int32_t> corner_;  // of a polygon: [state]
  std::vector<Vector> points_;
};

/// The most factors that one of these maps takes.
int64_t most_factors(const LevelPoints& points, const std::vector<StateMap>& maps);

}  // namespace dp::theory
