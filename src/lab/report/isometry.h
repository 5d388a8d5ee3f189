// Orthogonal matrices for people: angles, axes, mirrors and transpositions.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/applied_maps.h"

namespace dp::report {

/// A rotation in three dimensions, to the left when seen from the tip of its axis.
struct Turn {
  double degrees = 0;  // from 0 to 180
  std::array<double, 3> axis =
      {};  // of length 1, or 0 if nothing turns; either of two for 180 degrees
};
Turn turn_of(const theory::Matrix& m);

/// An isometry of the plane that leaves the origin in place.
struct PlaneMap {
  bool mirror = false;
  double degrees =
      0;  // rotation to the left, below 360, or of the mirror with the first axis, below 180
};
PlaneMap plane_map_of(const theory::Matrix& m);

/// The rows that a reflection with key k exchanges, from 0 on, if that is what it does.
std::optional<std::pair<size_t, size_t>> transposition_of(const std::vector<double>& k);
std::string transposition_name(std::pair<size_t, size_t> rows);  // "(1 2)"

/// What all maps of a model are.
enum class Geometry {
  kTranspositions,  // every factor exchanges two rows
  kPlane,           // isometries of the plane
  kRotations,       // of three dimensions
  kOther,
};
Geometry geometry_of(const AppliedMaps& maps);

/// "rotation by 72.00°", "mirror at 36.00°", "(1 2), then (2 3)".
std::string describe(const AppliedMap& map, Geometry geometry);
/// The angle of that as a number to sort by; of transpositions, how many there are.
double size_of(const AppliedMap& map, Geometry geometry);

std::string degrees_text(double degrees);                  // "72.00°"
std::string axis_text(const std::array<double, 3>& axis);  // "(0.000, −0.526, 0.851)"

}  // namespace dp::report
