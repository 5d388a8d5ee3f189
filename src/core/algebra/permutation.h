// Permutations of the points 0 .. degree-1. Products act from the left, as functions do:
// (a * b)(i) = a(b(i)).
#pragma once
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dp {

class Permutation {
 public:
  /// The largest degree: points are 16-bit numbers.
  static constexpr int64_t kMaxDegree = 65535;

  /// The identity.
  explicit Permutation(int64_t degree = 0);
  /// images[i] is where i goes. Throws std::invalid_argument if that is not a permutation.
  explicit Permutation(std::vector<uint16_t> images);

  /// Disjoint cycles of points counted from 1, as people write them: "(1 2 3)(4 5)", "()" for the
  /// identity; commas may stand for the spaces. Points beyond `degree` are refused; degree 0 means
  /// the largest point named. Throws InputError that names the position.
  static Permutation parse(std::string_view text, int64_t degree = 0);

  int64_t degree() const { return static_cast<int64_t>(images_.size()); }
  uint16_t operator()(int64_t point) const { return images_[static_cast<size_t>(point)]; }
  std::span<const uint16_t> images() const { return images_; }

  bool is_identity() const { return moved_points() == 0; }
  Permutation inverse() const;
  /// The least k > 0 whose k-th power is the identity.
  int64_t order() const;
  /// Whether it is a product of an odd number of transpositions.
  bool is_odd() const;
  int64_t moved_points() const;
  /// Cycles of more than one point, each from its least point on, in the order of these.
  std::vector<std::vector<uint16_t>> cycles() const;
  /// What parse() reads; each cycle starts with its least point.
  std::string to_string() const;

  /// First b, then a. Throws std::invalid_argument unless both have the same degree.
  friend Permutation operator*(const Permutation& a, const Permutation& b);
  /// By degree, then by the list of images; the identity comes first among those of its degree.
  friend std::strong_ordering operator<=>(const Permutation& a, const Permutation& b);
  friend bool operator==(const Permutation&, const Permutation&) = default;

 private:
  std::vector<uint16_t> images_;
};

}  // namespace dp
