// Points around a circle told apart by the sides of lines on which they are: signs, which do not depend on how far from the
// centre the points are. A state that reflections have made a little shorter or longer is read like any other.
#pragma once
#include <cstdint>
#include <vector>

#include "theory/network.h"

namespace dp::theory {

/// Normals of lines through the centre, such that all of `n` points at the angles i * step, step = 2 pi / n, are on
/// different sides of some: each line is half way between two neighbours if n is even, and a quarter of the way if it is
/// odd, where the middle would be opposite to a point.
std::vector<Vector> dividing_lines(int64_t n, double step);

/// As many as there are lines if slots[i], a head's Reading::kDirection of line i, says the side of this point for each
/// line, and at least 2 less for the other points.
Terms side_terms(const std::vector<Vector>& lines, const std::vector<int64_t>& slots,
                 const Vector& point);

}  // namespace dp::theory
