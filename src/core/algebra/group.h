// Finite groups as groups of permutations, with their elements numbered and their products tabulated.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algebra/permutation.h"

namespace dp {

/// Elements are the numbers 0 .. order()-1 in the order of their permutations (by lists of images),
/// so that 0 is the identity. Products act from the left: multiply(a, b) is first b, then a.
class FiniteGroup {
 public:
  static constexpr int64_t kMaxOrder = 20160;  // that of A8
  static constexpr int64_t kMaxDegree = 1024;  // points that a group may act on
  static constexpr int64_t kMaxTable = 5040;   // largest order whose products are tabulated

  /// All products of the generators, which have the same degree. Throws std::invalid_argument if
  /// degrees differ or there is no generator, InputError if there are more than kMaxOrder elements.
  static FiniteGroup generated_by(std::string name, std::span<const Permutation> generators);

  /// Z_n: rotations of n points; the element k maps i to i + k.
  static FiniteGroup cyclic(int64_t n);
  /// D_n, of order 2n: maps of n points i -> i + k, named rk, and i -> k - i, named sk. Two more points
  /// tell these apart when n < 3.
  static FiniteGroup dihedral(int64_t n);
  /// S_n: all permutations of n points.
  static FiniteGroup symmetric(int64_t n);
  /// A_n: the even ones.
  static FiniteGroup alternating(int64_t n);
  /// Tuples of elements, one of each factor, of which there is at least one; acts on the points of the
  /// first followed by those of the second, and so on. The last entry of a tuple counts fastest: (a, b)
  /// is the element a * second.order() + b.
  static FiniteGroup direct_product(std::span<const FiniteGroup> factors);
  /// "S3", "A5", "Z7", "D4", and products of them: "S3xZ2", "Z2xZ2xZ2". Throws InputError that names
  /// the position, also for groups beyond the limits above.
  static FiniteGroup parse(std::string_view text);

  const std::string& name() const { return name_; }
  int32_t order() const { return static_cast<int32_t>(permutations_.size()); }
  /// How many points the permutations act on.
  int64_t degree() const { return permutations_.front().degree(); }
  static constexpr int32_t identity() { return 0; }

  /// a * b: first b, then a. Arguments below are not checked: each must be an element.
  int32_t multiply(int32_t a, int32_t b) const {
    return table_.empty()
               ? compose(a, b)
               : table_[static_cast<size_t>(a) * permutations_.size() + static_cast<size_t>(b)];
  }
  int32_t inverse(int32_t a) const { return inverses_[static_cast<size_t>(a)]; }
  const Permutation& permutation(int32_t a) const { return permutations_[static_cast<size_t>(a)]; }
  /// "3" in Z_n, "r1" or "s0" in D_n, cycles otherwise, joined by commas in products.
  const std::string& element_name(int32_t a) const { return names_[static_cast<size_t>(a)]; }

  std::optional<int32_t> find(const Permutation& permutation) const;
  /// The elements that the group was built from.
  std::span<const int32_t> generators() const { return generators_; }
  bool is_abelian() const;
  /// All products of some elements, ascending.
  std::vector<int32_t> subgroup(std::span<const int32_t> elements) const;

 private:
  FiniteGroup() = default;
  int32_t compose(int32_t a, int32_t b) const;
  int32_t index(const Permutation& permutation) const { return *find(permutation); }
  void tabulate();

  std::string name_;
  std::vector<Permutation> permutations_;  // ascending
  std::vector<std::string> names_;
  std::vector<int32_t> inverses_, generators_;
  std::vector<uint16_t> table_;  // [order,order], a * b at [a][b]; empty above kMaxTable
};

}  // namespace dp
