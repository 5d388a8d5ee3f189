// How many reflections the elements of a group take in its real representations, from its characters.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "algebra/group.h"

namespace dp {

/// An irreducible real representation: an element g as Q takes rank(I - Q) reflections and no fewer.
struct IrreducibleRanks {
  int64_t degree = 0;
  std::vector<int32_t> rank;  // [elements]: rank(I - Q)
};

/// All of them, by Dixon's algorithm: the classes' multiplication has the characters as its eigenvectors, here modulo
/// a prime that is 1 modulo the orders of all elements. What is needed of a character, the dimension of the
/// space that an element leaves in place and whether it is real, are small integers, so that they are exact. None
/// for a group of more than kMaxClasses conjugacy classes.
std::optional<std::vector<IrreducibleRanks>> irreducible_ranks(const FiniteGroup& group);
inline constexpr size_t kMaxClasses = 64;

/// The least n for which representations in which each of `alphabet` takes at most n reflections tell all elements
/// of the group that it generates apart. However a faithful real representation is split over the heads of a
/// layer, one head has an element of the alphabet with at least so many. None where
/// irreducible_ranks() has none and the group is not abelian.
std::optional<int64_t> least_reflections(const FiniteGroup& group,
                                         std::span<const int32_t> alphabet);

}  // namespace dp
