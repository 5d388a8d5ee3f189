// FiniteGroup::parse(): "S3xZ2" and the like.
#include <algorithm>
#include <utility>

#include "algebra/group.h"
#include "base/error.h"
#include "base/quote.h"

namespace dp {
namespace {

struct Factor {
  char family;
  int64_t n;
};

/// The order of the factor times `product`, or anything above kMaxOrder.
int64_t order_times(int64_t product, const Factor& factor) {
  const int64_t limit = FiniteGroup::kMaxOrder;
  // S_n and A_n are counted as n!, n!/2; every step stays far from overflow.
  int64_t order = factor.family == 'D' ? 2 * factor.n : factor.n;
  if (factor.family == 'S' || factor.family == 'A') {
    order = 1;
    for (int64_t i = factor.family == 'S' ? 2 : 3; i <= factor.n && order <= limit; ++i) order *= i;
  }
  return std::min(order, limit + 1) * product;
}

class GroupReader {
 public:
  explicit GroupReader(std::string_view text) : text_(text) {}

  FiniteGroup read() {
    std::vector<FiniteGroup> factors;
    for (const Factor& factor : read_factors()) factors.push_back(build(factor));
    return factors.size() == 1 ? std::move(factors.front()) : FiniteGroup::direct_product(factors);
  }

 private:
  /// Refuses what is too large before any of it is built.
  std::vector<Factor> read_factors() {
    std::vector<Factor> factors = {read_factor()};
    while (at_ < text_.size()) {
      if (text_[at_] != 'x') fail("'x' or the end");
      ++at_;
      factors.push_back(read_factor());
    }
    return factors;
  }

  Factor read_factor() {
    const size_t start = at_;
    if (at_ == text_.size() || std::string_view("ZDSA").find(text_[at_]) == std::string_view::npos)
      fail("one of the families Z, D, S and A");
    const char family = text_[at_++];
    const size_t digits = at_;
    int64_t n = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (at_ == digits && text_[at_] == '0') fail("a number from 1 on");
      n = std::min<int64_t>(10 * n + (text_[at_] - '0'), 1'000'000);
    }
    if (at_ == digits) fail("a number from 1 on");
    const Factor factor{family, n};
    order_ = order_times(order_, factor);
    if (order_ > FiniteGroup::kMaxOrder)
      too_large(start, std::to_string(FiniteGroup::kMaxOrder) + " elements");
    degree_ += (family == 'D' && n < 3) ? n + 2 : n;
    if (degree_ > FiniteGroup::kMaxDegree)
      too_large(start, std::to_string(FiniteGroup::kMaxDegree) + " points to act on");
    return factor;
  }

  static FiniteGroup build(const Factor& factor) {
    switch (factor.family) {
      case 'Z':
        return FiniteGroup::cyclic(factor.n);
      case 'D':
        return FiniteGroup::dihedral(factor.n);
      case 'S':
        return FiniteGroup::symmetric(factor.n);
      default:
        return FiniteGroup::alternating(factor.n);
    }
  }

  [[noreturn]] void fail(const char* expected) const {
    throw InputError("group " + quote(text_) + ": expected " + expected + " at position " +
                     std::to_string(at_ + 1) + ", found " +
                     (at_ == text_.size() ? "the end" : quote(text_.substr(at_, 1))) +
                     "; groups are named like S3, A5, Z7, D4, S3xZ2");
  }

  [[noreturn]] void too_large(size_t start, const std::string& limit) const {
    throw InputError("group " + quote(text_) + ": expected a group of at most " + limit +
                     ", found more with " + quote(text_.substr(start, at_ - start)) +
                     " at position " + std::to_string(start + 1));
  }

  std::string_view text_;
  size_t at_ = 0;
  int64_t order_ = 1, degree_ = 0;
};

}  // namespace

FiniteGroup FiniteGroup::parse(std::string_view text) { return GroupReader(text).read(); }

}  // namespace dp
