// Pieces from merging: two neighbours become one if their text is a piece, that of the best score first.
#include <algorithm>
#include <map>
#include <string>

#include "base/utf8.h"
#include "text/pair_merger.h"
#include "text/prefix_trie.h"
#include "text/sentencepiece_words.h"
#include "text/word_table.h"

namespace dp {
namespace {

// Their bytes.
size_t leading_spaces(std::string_view text) {
  size_t length = 0;
  while (text.substr(length).starts_with(kSpaceSign)) length += kSpaceSign.size();
  return length;
}

class BpeFinder final : public PieceFinder {
 public:
  explicit BpeFinder(const SentencePieceModel& model) : model_(model) {
    std::vector<std::pair<std::string, int32_t>> user_defined;
    std::map<float, int32_t, std::greater<>> ranks;  // of scores: equal ones have the same
    for (size_t i = 0; i < model.pieces.size(); ++i) {
      const SentencePiece& piece = model.pieces[i];
      if (piece.type == PieceType::kUserDefined)
        user_defined.emplace_back(piece.text, static_cast<int32_t>(i));
      if (piece.type != PieceType::kNormal && piece.type != PieceType::kUserDefined) continue;
      symbols_.add(piece.text, static_cast<int32_t>(i));
      ranks.emplace(piece.score, 0);
      const size_t spaces = leading_spaces(piece.text);
      if (piece.text.find(kSpaceSign, spaces) != std::string::npos) pieces_span_words_ = true;
    }
    user_defined_ = PrefixTrie(std::move(user_defined));
    int32_t rank = 0;
    for (auto& [score, value] : ranks) value = rank++;
    add_characters();
    for (size_t i = 0; i < model.pieces.size(); ++i)
      if (const SentencePiece& piece = model.pieces[i];
          piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined)
        add_merges(piece.text, ranks.at(piece.score), static_cast<int32_t>(i));
    find_whole_words();
  }

  void find(std::string_view text, std::vector<FoundPiece>& found) const override {
    std::vector<int32_t> scratch;
    while (!text.empty()) {
      const std::string_view word = pieces_span_words_ ? text : text.substr(0, word_length(text));
      text.remove_prefix(word.size());
      if (const int32_t whole = whole_words_.find(word); whole >= 0)
        found.push_back({whole, word});
      else
        merge(word, scratch, found);
    }
  }

 private:
  // Characters within pieces that are no pieces themselves can be merged as well: they get numbers of their own.
  void add_characters() {
    auto next = static_cast<int32_t>(model_.pieces.size());
    for (const SentencePiece& piece : model_.pieces) {
      if (piece.type != PieceType::kNormal && piece.type != PieceType::kUserDefined) continue;
      for (size_t at = 0; at < piece.text.size();) {
        const size_t length = utf8_character(std::string_view(piece.text).substr(at));
        const std::string_view character = std::string_view(piece.text).substr(at, length);
        if (symbols_.add(character, next)) ++next;
        at += length;
      }
    }
  }

  void add_merges(std::string_view text, int32_t rank, int32_t id) {
    for (size_t at = utf8_character(text); at < text.size();
         at += utf8_character(text.substr(at))) {
      const int32_t left = symbols_.find(text.substr(0, at)),
                    right = symbols_.find(text.substr(at));
      if (left >= 0 && right >= 0 && may_merge(left) && may_merge(right))
        merger_.add(left, right, rank, id);
    }
  }

  bool may_merge(int32_t symbol) const {
    const auto index = static_cast<size_t>(symbol);
    return index >= model_.pieces.size() || model_.pieces[index].type != PieceType::kUserDefined;
  }

  // Most words are pieces: one look-up instead of merging.
  void find_whole_words() {
    std::vector<int32_t> scratch;
    std::vector<FoundPiece> found;
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      const SentencePiece& piece = model_.pieces[i];
      if (piece.type != PieceType::kNormal) continue;
      found.clear();
      merge(piece.text, scratch, found);
      if (found.size() == 1 && found[0].id == static_cast<int32_t>(i))
        whole_words_.add(piece.text, static_cast<int32_t>(i));
    }
  }

  // Up to the next space that follows something else: nothing merges across.
  static size_t word_length(std::string_view text) {
    return std::min(text.find(kSpaceSign, leading_spaces(text)), text.size());
  }

  void merge(std::string_view word, std::vector<int32_t>& symbols,
             std::vector<FoundPiece>& found) const {
    std::vector<FoundPiece> unmerged;  // what no piece contains: its symbol is -1 and stays
    symbols.clear();
    for (size_t at = 0; at < word.size();) {
      const std::string_view rest = word.substr(at);
      if (const PrefixTrie::Match match = user_defined_.longest(rest); match.value >= 0) {
        symbols.push_back(-1);
        unmerged.push_back({match.value, rest.substr(0, match.length)});
        at += match.length;
        continue;
      }
      const std::string_view character = rest.substr(0, std::max<size_t>(1, utf8_character(rest)));
      symbols.push_back(symbols_.find(character));
      if (symbols.back() < 0) unmerged.push_back({model_.unknown, character});
      at += character.size();
    }
    merger_.merge(symbols);
    size_t at = 0, next = 0;
    for (const int32_t symbol : symbols) {
      if (symbol < 0) {
        found.push_back(unmerged[next++]);
      } else if (static_cast<size_t>(symbol) < model_.pieces.size()) {
        const size_t length = model_.pieces[static_cast<size_t>(symbol)].text.size();
        found.push_back({symbol, word.substr(at, length)});
      } else {
        found.push_back({model_.unknown, word.substr(at, utf8_character(word.substr(at)))});
      }
      at += found.back().text.size();
    }
  }

  const SentencePieceModel& model_;
  PrefixTrie user_defined_;
  WordTable symbols_;      // pieces and single characters
  WordTable whole_words_;  // pieces that their own characters become
  PairMerger merger_;
  bool pieces_span_words_ = false;
};

}  // namespace

std::unique_ptr<PieceFinder> make_bpe_finder(const SentencePieceModel& model) {
  return std::make_unique<BpeFinder>(model);
}

}  // namespace dp
