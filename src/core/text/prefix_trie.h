// Which of many words a text begins with.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dp {

class PrefixTrie {
 public:
  struct Match {
    int32_t value = -1;  // none
    size_t length = 0;
  };

  PrefixTrie() = default;
  /// Words, none of them empty and none twice, and their values, none of them negative.
  explicit PrefixTrie(std::vector<std::pair<std::string, int32_t>> words);

  bool empty() const { return nodes_.empty(); }
  /// Calls found(value, length) for every word that `text` begins with, the shortest first.
  template <class Found>
  void each(std::string_view text, const Found& found) const;
  Match longest(std::string_view text) const;
  /// The first place where a word stands, there the longest; `text.size()` and no match if there is none.
  std::pair<size_t, Match> find(std::string_view text) const;

 private:
  struct Node {
    int32_t value = -1;
    uint32_t first_child = 0;
    uint16_t num_children = 0;
    uint8_t letter = 0;
  };
  const Node* child(const Node& node, uint8_t letter) const;

  std::vector<Node> nodes_;            // children of a node lie side by side, sorted by letter
  std::array<int32_t, 256> begins_{};  // the node of a first letter; 0: no word begins with it
};

inline const PrefixTrie::Node* PrefixTrie::child(const Node& node, uint8_t letter) const {
  const Node* first = nodes_.data() + node.first_child;
  size_t count = node.num_children;
  while (count > 0) {
    const size_t half = count / 2;
    if (first[half].letter == letter) return first + half;
    if (first[half].letter < letter) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return nullptr;
}

template <class Found>
void PrefixTrie::each(std::string_view text, const Found& found) const {
  if (text.empty()) return;
  const int32_t begin = begins_[static_cast<uint8_t>(text[0])];
  if (begin == 0) return;
  const Node* node = &nodes_[static_cast<size_t>(begin)];
  for (size_t length = 1;; ++length) {
    if (node->value >= 0) found(node->value, length);
    if (length == text.size()) return;
    node = child(*node, static_cast<uint8_t>(text[length]));
    if (!node) return;
  }
}

}  // namespace dp
