// A head's numbers in words, by the paper's two questions about S4: are all factors
// reflections, and do the keys lie in three dimensions?
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/analysis.h"

namespace dp::analysis {

/// I - beta k k^T reflects if beta is 2; from here on it counts as if it were.
inline constexpr double kNearTwo = 1.9;
/// This share of the elements is nearly all of them.
inline constexpr double kNearlyAll = 0.95;
/// This share of the variance is nearly all of it.
inline constexpr double kMostVariance = 0.95;

struct Verdict {
  /// [F] elements whose mean beta is kNearTwo or more. The identity is not counted: it needs no reflection, although two
  /// reflections with the same key are one way to write it.
  std::vector<int64_t> near_two;
  int64_t elements = 0;  // that could be counted
  /// [F + 1] elements by how many of their factors have such a beta. One is enough for an element that reflects, such as a
  /// transposition of S3; one that rotates needs two.
  std::vector<int64_t> by_reflections;
  /// Each factor reflects for nearly all of these elements.
  bool reflections = false;
  int64_t dimensions =
      0;                // components that hold kMostVariance of the variance of all keys, centred
  double in_three = 0;  // share of that variance in the first three
  bool as_in_paper = false;  // reflections, and more than kMostVariance in three dimensions
  std::string words;         // one sentence without the name of the head
};
/// `elements` are those of the head's analysis.
Verdict judge(const Head& head, const std::vector<Element>& elements);

/// "head 3", or "head 3 of layer 1" if there are several layers.
std::string head_name(const Head& head, const Analysis& analysis);

/// Which head matters most and what it does, which others do the same.
std::vector<std::string> summary(const Analysis& analysis);

}  // namespace dp::analysis
