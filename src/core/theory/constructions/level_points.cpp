#include "theory/constructions/level_points.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <tuple>

#include "theory/constructions/plane_sides.h"
#include "theory/rwkv7.h"

namespace dp::theory {
namespace {

Vector corner(int64_t i, int64_t n) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

// Swaps, and copies for a map that is no permutation.
LevelFactors swaps_and_copies(const StateMap& map) {
  LevelFactors factors;
  for (const MapStep& step : map_steps(map))
    factors.push_back(
        {step.swap ? LevelFactor::Kind::kSwap : LevelFactor::Kind::kCopy, {}, step.from, step.to});
  return factors;
}

// Corners for the states if all permutations turn or mirror them, found along a cycle of all states.
std::optional<std::vector<int32_t>> find_polygon(size_t n, const std::vector<StateMap>& maps) {
  std::vector<int32_t> corners;
  for (const StateMap& map : maps) {
    if (!is_permutation(map)) continue;
    std::vector<int32_t> found(n, -1);
    int32_t state = 0;
    for (int32_t i = 0; found[static_cast<size_t>(state)] < 0; ++i) {
      found[static_cast<size_t>(state)] = i;
      state = map[static_cast<size_t>(state)];
    }
    if (std::ranges::find(found, -1) != found.end()) continue;
    corners = std::move(found);
    break;
  }
  if (corners.empty()) return std::nullopt;
  const auto size = static_cast<int32_t>(n);
  for (const StateMap& map : maps) {
    if (!is_permutation(map)) continue;
    bool turns = true, mirrors = true;
    const auto image = [&](size_t q) { return corners[static_cast<size_t>(map[q])]; };
    for (size_t q = 0; q < n; ++q) {
      turns = turns && (image(q) - corners[q] - image(0) + corners[0]) % size == 0;
      mirrors = mirrors && (image(q) + corners[q] - image(0) - corners[0]) % size == 0;
    }
    if (!turns && !mirrors) return std::nullopt;
  }
  return corners;
}

}  // namespace

bool LevelFactor::operator<(const LevelFactor& other) const {
  return std::tie(kind, k, from, to) < std::tie(other.kind, other.k, other.from, other.to);
}

LevelPoints::LevelPoints(int64_t size, const std::vector<StateMap>& maps, Architecture architecture)
    : architecture_(architecture) {
  if (architecture == Architecture::kDeltaProduct && size <= kMostCorners) {
    size_t most = 0;
    for (const StateMap& map : maps)
      if (is_permutation(map)) most = std::max(most, map_steps(map).size());
    if (most > 2)
      if (auto corners = find_polygon(static_cast<size_t>(size), maps)) {
        is_polygon_ = true;
        corner_ = *std::move(corners);
      }
  }
  for (int64_t q = 0; q < size; ++q)
    points_.push_back(is_polygon_ ? corner(corner_[static_cast<size_t>(q)], size)
                                  : unit_vector(size, q));
  queries_ = is_polygon_ ? dividing_lines(size, 2 * std::numbers::pi / static_cast<double>(size))
                         : points_;
}

LevelFactors LevelPoints::factors(const StateMap& map) const {
  if (is_reset(map) && !is_permutation(map) && architecture_ == Architecture::kDeltaProduct)
    return {{LevelFactor::Kind::kReset, {}, 0, map.front()}};
  if (!is_polygon_) return swaps_and_copies(map);
  const auto n = static_cast<int64_t>(map.size());
  const auto image = [&](size_t q) { return corner_[static_cast<size_t>(map[q])]; };
  const int64_t turn = (image(0) - corner_[0] + n) % n;
  const bool turns = (image(1) - corner_[1] - turn) % n == 0;
  const auto mirror = [](double angle) {
    return LevelFactor{LevelFactor::Kind::kReflect, {std::cos(angle), std::sin(angle)}, 0, 0};
  };
  const double half_step = std::numbers::pi / static_cast<double>(n);
  // The mirror that swaps corners i and a - i has its normal at right angles to the direction of a/2.
  if (!turns)
    return {mirror(half_step * static_cast<double>((image(0) + corner_[0]) % n) +
                   std::numbers::pi / 2)};
  if (turn == 0) return {};
  // One normal is a coordinate axis, and so exact; no entry is negative.
  if (2 * turn <= n) return {mirror(0), mirror(half_step * static_cast<double>(turn))};
  return {mirror(half_step * static_cast<double>(n - turn)), mirror(0)};
}

// For a unit vector, its own entry and the negative of that.
std::vector<Terms> LevelPoints::state_terms(const std::vector<int64_t>& slots,
                                            int64_t state) const {
  if (is_polygon_) return {side_terms(queries_, slots, point(state))};
  const int64_t slot = slots[static_cast<size_t>(state)];
  return {{{slot, kSlotScale}}, {{slot, -kSlotScale}}};
}

double LevelPoints::threshold(double least) const {
  return is_polygon_ ? static_cast<double>(queries_.size()) - 1 : least / 2;
}

double LevelPoints::margin(double least) const { return is_polygon_ ? 0.5 : least / 4; }

int64_t most_factors(const LevelPoints& points, const std::vector<StateMap>& maps) {
  size_t most = 1;
  for (const StateMap& map : maps) most = std::max(most, points.factors(map).size());
  return static_cast<int64_t>(most);
}

}  // namespace dp::theory
