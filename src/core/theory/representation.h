// Groups as groups of orthogonal matrices, and orthogonal matrices as products of reflections.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "algebra/group.h"
#include "theory/matrix.h"

namespace dp::theory {

/// One orthogonal matrix for each element, all different, with matrix(a b) = matrix(a) matrix(b).
struct Representation {
  std::string name;  // "permutation matrices", "rotations of the icosahedron"
  std::vector<Matrix> matrices;

  size_t dimension() const { return matrices.front().rows(); }
};

/// For any group: element g moves unit vector i to unit vector g(i).
Representation permutation_matrices(const FiniteGroup& group);
/// Z_m as rotations of the plane, D_m as those and reflections. `group` must be one of them.
Representation plane_isometries(const FiniteGroup& group);
/// S4 permutes the four diagonals of a cube, A4 too: rotations in three dimensions.
Representation cube_rotations(const FiniteGroup& group);
/// A5 as the rotations of an icosahedron.
Representation icosahedron_rotations(const FiniteGroup& group);

/// The one of these that takes the fewest reflections for any element of `alphabet`; among equals the one of
/// fewer dimensions. Z, D, S4, A4 and A5 are told by their names.
Representation smallest_representation(const FiniteGroup& group,
                                       const std::vector<int32_t>& alphabet);

/// Unit vectors k_1 .. k_r with Q = H(k_r) .. H(k_1), H(k) = I - 2 k k^T: k_1 acts first. There are as few as
/// possible: r = rank(I - Q) (Cartan and Dieudonne). Each step takes a unit vector e that Q moves and splits off
/// the reflection that takes Q e back to e; what Q left in place that reflection does, too. The reflections of
/// a permutation matrix are transpositions. Throws std::invalid_argument unless Q is orthogonal to 1e-9.
std::vector<std::vector<double>> reflections(const Matrix& q);

/// The most reflections that any of these elements takes.
int64_t most_reflections(const Representation& representation,
                         const std::vector<int32_t>& elements);

}  // namespace dp::theory
