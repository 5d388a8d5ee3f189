#include "theory/constructions/plane_sides.h"

#include <cmath>
#include <numbers>

namespace dp::theory {

std::vector<Vector> dividing_lines(int64_t n, double step) {
  std::vector<Vector> normals;
  const double offset = n % 2 == 0 ? 0.5 : 0.25;
  for (int64_t i = 0; i < (n % 2 == 0 ? n / 2 : n); ++i) {
    const double angle = (static_cast<double>(i) + offset) * step + std::numbers::pi / 2;
    normals.push_back({std::cos(angle), std::sin(angle)});
  }
  return normals;
}

Terms side_terms(const std::vector<Vector>& lines, const std::vector<int64_t>& slots,
                 const Vector& point) {
  Terms terms;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool positive = lines[i][0] * point[0] + lines[i][1] * point[1] > 0;
    terms.emplace_back(slots[i], positive ? kSlotScale : -kSlotScale);
  }
  return terms;
}

}  // namespace dp::theory
