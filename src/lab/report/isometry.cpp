#include "report/isometry.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace dp::report {
namespace {

using theory::Matrix;

constexpr double kPerRadian = 180 / std::numbers::pi;
constexpr double kTiny = 1e-4;  // radians, and entries of matrices, that are rounding

double determinant(const Matrix& m) {
  if (m.rows() == 2) return m(0, 0) * m(1, 1) - m(0, 1) * m(1, 0);
  double sum = 0;
  for (size_t i = 0; i < 3; ++i)
    sum +=
        m(0, i) * (m(1, (i + 1) % 3) * m(2, (i + 2) % 3) - m(1, (i + 2) % 3) * m(2, (i + 1) % 3));
  return sum;
}

// From 0 on and below `period`, with what is just below it as 0.
double wrapped(double degrees, double period) {
  degrees = std::fmod(degrees + period, period);
  return degrees > period - kTiny * kPerRadian ? 0 : degrees;
}

bool acts(const AppliedMap& map, size_t factor) { return map.betas[factor] != 0; }

}  // namespace

Turn turn_of(const Matrix& m) {
  const std::array<double, 3> twice = {m(2, 1) - m(1, 2), m(0, 2) - m(2, 0), m(1, 0) - m(0, 1)};
  const double sine = theory::length(twice) / 2, cosine = (m(0, 0) + m(1, 1) + m(2, 2) - 1) / 2;
  Turn turn{.degrees = std::atan2(sine, cosine) * kPerRadian};
  if (turn.degrees < kTiny * kPerRadian) return {};
  // The symmetric part is cos I + (1 - cos) a a^T: good at all angles that are not small, but for the sign.
  size_t most = 0;
  for (size_t i = 1; i < 3; ++i)
    if (m(i, i) > m(most, most)) most = i;
  for (size_t i = 0; i < 3; ++i)
    turn.axis[i] = (m(i, most) + m(most, i)) / 2 - (i == most ? cosine : 0);
  const double size = theory::length(turn.axis);
  double along = 0;
  for (size_t i = 0; i < 3; ++i) along += turn.axis[i] * twice[i];
  for (double& entry : turn.axis) entry /= along < 0 && sine > kTiny ? -size : size;
  return turn;
}

PlaneMap plane_map_of(const Matrix& m) {
  const double angle = std::atan2(m(1, 0), m(0, 0)) * kPerRadian;
  if (determinant(m) > 0) return {false, wrapped(angle, 360)};
  return {true, wrapped(angle / 2, 180)};
}

std::optional<std::pair<size_t, size_t>> transposition_of(const std::vector<double>& k) {
  std::vector<size_t> used;
  for (size_t i = 0; i < k.size(); ++i)
    if (std::abs(k[i]) > 0.01) used.push_back(i);
  if (used.size() != 2 || std::abs(k[used[0]] + k[used[1]]) > 0.01) return std::nullopt;
  return std::pair(used[0], used[1]);
}

std::string transposition_name(std::pair<size_t, size_t> rows) {
  return "(" + std::to_string(rows.first + 1) + " " + std::to_string(rows.second + 1) + ")";
}

Geometry geometry_of(const AppliedMaps& maps) {
  const bool swaps = std::ranges::all_of(maps.maps, [](const AppliedMap& map) {
    for (size_t j = 0; j < map.keys.size(); ++j)
      if (acts(map, j) && !transposition_of(map.keys[j])) return false;
    return true;
  });
  if (swaps && maps.dimension > 2) return Geometry::kTranspositions;
  if (maps.dimension == 2) return Geometry::kPlane;
  const bool turns = maps.dimension == 3 && std::ranges::all_of(maps.maps, [](const auto& map) {
                       return determinant(map.matrix) > 0;
                     });
  return turns ? Geometry::kRotations : Geometry::kOther;
}

std::string degrees_text(double degrees) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f°", degrees);
  return text;
}

std::string axis_text(const std::array<double, 3>& axis) {
  char text[64];
  std::snprintf(text, sizeof text, "(%.3f, %.3f, %.3f)", axis[0], axis[1], axis[2]);
  std::string result = text;
  for (size_t at; (at = result.find("-0.000")) != std::string::npos;) result.erase(at, 1);
  for (size_t at; (at = result.find('-')) != std::string::npos;) result.replace(at, 1, "−");
  return result;
}

std::string describe(const AppliedMap& map, Geometry geometry) {
  if (geometry == Geometry::kPlane) {
    const PlaneMap plane = plane_map_of(map.matrix);
    return (plane.mirror ? "mirror at " : "rotation by ") + degrees_text(plane.degrees);
  }
  if (geometry == Geometry::kRotations)
    return "rotation by " + degrees_text(turn_of(map.matrix).degrees);
  std::string text;
  const auto add = [&](const std::string& part, const char* separator) {
    text += (text.empty() ? "" : separator) + part;
  };
  if (geometry == Geometry::kTranspositions) {
    for (size_t j = 0; j < map.keys.size(); ++j)
      if (acts(map, j)) add(transposition_name(*transposition_of(map.keys[j])), ", then ");
    return text.empty() ? "nothing" : text;
  }
  for (const std::complex<double>& value : theory::eigenvalues(map.matrix))
    if (value.imag() >= 0) add(degrees_text(std::arg(value) * kPerRadian), ", ");
  return "eigenvalues at " + text;
}

double size_of(const AppliedMap& map, Geometry geometry) {
  if (geometry == Geometry::kPlane) {
    const PlaneMap plane = plane_map_of(map.matrix);
    return plane.degrees + (plane.mirror ? 360 : 0);
  }
  if (geometry == Geometry::kRotations) return turn_of(map.matrix).degrees;
  double factors = 0;
  for (size_t j = 0; j < map.keys.size(); ++j) factors += acts(map, j);
  return factors;
}

}  // namespace dp::report
