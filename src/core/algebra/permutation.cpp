#include "algebra/permutation.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "base/error.h"
#include "base/quote.h"

namespace dp {
namespace {

/// Reads cycle notation from left to right; every complaint names the position, counted from 1.
class CycleReader {
 public:
  explicit CycleReader(std::string_view text) : text_(text) {}

  std::vector<std::vector<int64_t>> read() {
    std::vector<std::vector<int64_t>> cycles;
    skip_spaces();
    if (at_end()) fail("'('");
    while (!at_end()) {
      cycles.push_back(read_cycle());
      skip_spaces();
    }
    return cycles;
  }

 private:
  std::vector<int64_t> read_cycle() {
    if (at_end() || text_[at_] != '(') fail("'('");
    ++at_;
    std::vector<int64_t> points;
    skip_spaces();
    while (at_end() || text_[at_] != ')') {
      points.push_back(read_point());
      const size_t before = at_;
      skip_spaces();
      if (!at_end() && text_[at_] == ',') {
        ++at_;
        skip_spaces();
        if (at_end() || text_[at_] == ')') fail("a point");
      } else if (at_ == before && !at_end() && text_[at_] != ')') {
        fail("a space, a comma or ')'");
      }
    }
    ++at_;
    return points;
  }

  int64_t read_point() {
    const size_t start = at_;
    int64_t point = 0;
    for (; !at_end() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      point = 10 * point + (text_[at_] - '0');
      if (point > Permutation::kMaxDegree) break;
    }
    if (at_ == start) fail(at_end() ? "')'" : "a point or ')'");
    if (point < 1 || point > Permutation::kMaxDegree) {
      at_ = start;
      fail("a point from 1 to " + std::to_string(Permutation::kMaxDegree));
    }
    return point - 1;
  }

  void skip_spaces() {
    while (!at_end() && text_[at_] == ' ') ++at_;
  }

  bool at_end() const { return at_ == text_.size(); }

  [[noreturn]] void fail(const std::string& expected) const {
    throw InputError("permutation " + quote(text_) + ": expected " + expected + " at position " +
                     std::to_string(at_ + 1) + ", found " +
                     (at_end() ? "the end" : quote(text_.substr(at_, 1))));
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Permutation::Permutation(int64_t degree) {
  if (degree < 0 || degree > kMaxDegree)
    throw std::invalid_argument("Permutation: degree must be from 0 to " +
                                std::to_string(kMaxDegree) + ", got " + std::to_string(degree));
  images_.resize(static_cast<size_t>(degree));
  std::iota(images_.begin(), images_.end(), uint16_t{0});
}

Permutation::Permutation(std::vector<uint16_t> images) : images_(std::move(images)) {
  std::vector<bool> seen(images_.size());
  for (const uint16_t image : images_) {
    if (image >= images_.size() || seen[image])
      throw std::invalid_argument(
          "Permutation: images must be each of 0 to " + std::to_string(degree() - 1) +
          " once, got " + std::to_string(image) + (image >= images_.size() ? "" : " twice"));
    seen[image] = true;
  }
}

Permutation Permutation::parse(std::string_view text, int64_t degree) {
  const auto cycles = CycleReader(text).read();
  int64_t largest = 0;
  for (const auto& cycle : cycles)
    for (const int64_t point : cycle) largest = std::max(largest, point + 1);
  if (degree > 0 && largest > degree)
    throw InputError("permutation " + quote(text) + ": expected points from 1 to " +
                     std::to_string(degree) + ", found " + std::to_string(largest));
  Permutation result(std::max(degree, largest));
  std::vector<bool> seen(result.images_.size());
  for (const auto& cycle : cycles) {
    for (size_t i = 0; i < cycle.size(); ++i) {
      const auto point = static_cast<size_t>(cycle[i]);
      if (seen[point])
        throw InputError("permutation " + quote(text) + ": expected disjoint cycles, found " +
                         std::to_string(point + 1) + " twice");
      seen[point] = true;
      result.images_[point] = static_cast<uint16_t>(cycle[(i + 1) % cycle.size()]);
    }
  }
  return result;
}

Permutation Permutation::inverse() const {
  Permutation result(degree());
  for (size_t i = 0; i < images_.size(); ++i) result.images_[images_[i]] = static_cast<uint16_t>(i);
  return result;
}

int64_t Permutation::order() const {
  int64_t result = 1;
  for (const auto& cycle : cycles()) result = std::lcm(result, static_cast<int64_t>(cycle.size()));
  return result;
}

bool Permutation::is_odd() const {
  bool odd = false;
  for (const auto& cycle : cycles()) odd ^= cycle.size() % 2 == 0;
  return odd;
}

int64_t Permutation::moved_points() const {
  int64_t moved = 0;
  for (size_t i = 0; i < images_.size(); ++i) moved += images_[i] != i;
  return moved;
}

std::vector<std::vector<uint16_t>> Permutation::cycles() const {
  std::vector<std::vector<uint16_t>> result;
  std::vector<bool> seen(images_.size());
  for (size_t start = 0; start < images_.size(); ++start) {
    if (seen[start] || images_[start] == start) continue;
    auto& cycle = result.emplace_back();
    for (auto point = static_cast<uint16_t>(start); !seen[point]; point = images_[point]) {
      seen[point] = true;
      cycle.push_back(point);
    }
  }
  return result;
}

std::string Permutation::to_string() const {
  std::string text;
  for (const auto& cycle : cycles()) {
    text += '(';
    for (const uint16_t point : cycle) text += std::to_string(point + 1) + ' ';
    text.back() = ')';
  }
  return text.empty() ? "()" : text;
}

Permutation operator*(const Permutation& a, const Permutation& b) {
  if (a.degree() != b.degree())
    throw std::invalid_argument("Permutation: factors must have the same degree, got " +
                                std::to_string(a.degree()) + " and " + std::to_string(b.degree()));
  Permutation result = b;
  for (uint16_t& image : result.images_) image = a.images_[image];
  return result;
}

std::strong_ordering operator<=>(const Permutation& a, const Permutation& b) {
  if (a.degree() != b.degree()) return a.degree() <=> b.degree();
  return std::lexicographical_compare_three_way(a.images_.begin(), a.images_.end(),
                                                b.images_.begin(), b.images_.end());
}

}  // namespace dp
