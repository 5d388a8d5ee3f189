#include "text/prefix_trie.h"

#include <algorithm>

namespace dp {

PrefixTrie::PrefixTrie(std::vector<std::pair<std::string, int32_t>> words) {
  if (words.empty()) return;
  std::ranges::sort(words);  // as unsigned bytes
  struct Range {             // of words that share a node's letters
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, words.size(), 0}};
  nodes_.resize(1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    auto [begin, end, depth] = ranges[i];
    if (words[begin].first.size() == depth) nodes_[i].value = words[begin++].second;
    nodes_[i].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char letter = words[begin].first[depth];
      size_t stop = begin;
      while (stop < end && words[stop].first[depth] == letter) ++stop;
      Node child;
      child.letter = static_cast<uint8_t>(letter);
      nodes_.push_back(child);
      ranges.push_back({begin, stop, depth + 1});
      ++nodes_[i].num_children;
      begin = stop;
    }
  }
  for (size_t j = 0; j < nodes_[0].num_children; ++j)
    begins_[nodes_[nodes_[0].first_child + j].letter] =
        static_cast<int32_t>(nodes_[0].first_child + j);
}

PrefixTrie::Match PrefixTrie::longest(std::string_view text) const {
  Match match;
  each(text, [&](int32_t value, size_t length) { match = {value, length}; });
  return match;
}

std::pair<size_t, PrefixTrie::Match> PrefixTrie::find(std::string_view text) const {
  if (!empty())
    for (size_t at = 0; at < text.size(); ++at)
      if (begins_[static_cast<uint8_t>(text[at])] != 0)
        if (const Match match = longest(text.substr(at)); match.value >= 0) return {at, match};
  return {text.size(), {}};
}

}  // namespace dp
