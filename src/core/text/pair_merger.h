// The loop of byte-pair encoding.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dp {

/// A table of pairs of symbols that may become one, each with a rank.
class PairMerger {
 public:
  /// Symbols and ranks are not negative; a pair that is there already gets the new rank and result.
  void add(int32_t left, int32_t right, int32_t rank, int32_t merged);

  /// Joins the pair of lowest rank, of several the leftmost, until no pair of the table stands side by side. Symbols may
  /// be negative: they stay. Time n log n.
  void merge(std::vector<int32_t>& symbols) const;

 private:
  struct Entry {
    uint64_t pair = kFree;
    int32_t rank = kNone, merged = -1;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};  // two symbols that are -1
  static constexpr int32_t kNone = INT32_MAX;

  static uint64_t pack_pair(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t find_place(uint64_t pair) const {
    const size_t mask = table_.size() - 1;
    size_t place = pair * 0x9e3779b97f4a7c15 >> (64 - std::countr_zero(table_.size()));
    while (table_[place].pair != kFree && table_[place].pair != pair) place = (place + 1) & mask;
    return place;
  }
  const Entry& find(int32_t left, int32_t right) const {
    return table_[find_place(pack_pair(left, right))];
  }
  void grow();
  void merge_few(std::vector<int32_t>& symbols) const;
  void merge_many(std::vector<int32_t>& symbols) const;

  std::vector<Entry> table_ = std::vector<Entry>(16);  // a power of two, at most half full
  size_t count_ = 0;
};

}  // namespace dp
