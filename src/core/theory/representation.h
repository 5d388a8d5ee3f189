// Groups as groups of orthogonal matrices, and orthogonal matrices as products of reflections.
#pragma once
#include <cstdint>
#include <optional>
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
/// The same on the vectors whose entries sum to 0, one dimension less, and with the sign of the permutation. For an even
/// number n of points all determinants are 1, so that n - 2 reflections are enough, one fewer than transpositions.
Representation signed_matrices(const FiniteGroup& group);

// Those below recognise a group by elements that satisfy its defining relations, whatever it is called; none if it is
// another one.

/// Z_m as rotations of the plane, D_m as those and reflections.
std::optional<Representation> plane_isometries(const FiniteGroup& group);
/// A4, S4 and A5 as the rotations of a tetrahedron, a cube and an icosahedron.
std::optional<Representation> solid_rotations(const FiniteGroup& group);
/// A4xZ2, S4xZ2 and A5xZ2 as those rotations and their negatives.
std::optional<Representation> solid_isometries(const FiniteGroup& group);

/// Representations that tell the elements apart together. Each is for heads of its own.
struct RepresentationChoice {
  std::vector<Representation> parts;
  int64_t reflections = 1;  // the most that an element of the alphabet takes in a part
};
/// All that are known here: those above, and for a product one of each of its factors. With the fewest reflections
/// first; among equals, with fewer parts and then fewer dimensions.
std::vector<RepresentationChoice> known_representations(const FiniteGroup& group,
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
