// The character maps of SentencePiece models: which sequences of characters become which others before anything else.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp {

class CharacterMap {
 public:
  /// A model's "precompiled_charsmap": the size of a double-array trie, the trie, and the texts that its values point
  /// at. Throws InputError.
  CharacterMap(std::string_view bytes, const std::string& file);

  struct Rule {
    size_t length = 0;      // of what is replaced
    std::string_view text;  // what takes its place; perhaps nothing
  };
  /// The rule for the longest beginning of `text` that has one.
  std::optional<Rule> find(std::string_view text) const;
  bool empty() const { return units_.empty(); }

 private:
  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a zero byte
};

}  // namespace dp
