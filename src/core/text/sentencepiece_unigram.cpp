// The most probable pieces: a shortest path, from left to right.
#include <algorithm>
#include <cfloat>

#include "base/utf8.h"
#include "text/prefix_trie.h"
#include "text/sentencepiece_words.h"

namespace dp {
namespace {

class UnigramFinder final : public PieceFinder {
 public:
  explicit UnigramFinder(const SentencePieceModel& model) : model_(model) {
    std::vector<std::pair<std::string, int32_t>> words;
    float least = FLT_MAX;
    for (size_t i = 0; i < model.pieces.size(); ++i) {
      const SentencePiece& piece = model.pieces[i];
      if (piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined)
        words.emplace_back(piece.text, static_cast<int32_t>(i));
      if (piece.type != PieceType::kNormal) continue;
      least = std::min(least, piece.score);
      best_score_ = std::max(best_score_, piece.score);
    }
    trie_ = PrefixTrie(std::move(words));
    unknown_score_ = least - 10;
  }

  void find(std::string_view text, std::vector<FoundPiece>& found) const override {
    struct Path {  // the best that ends at a byte
      int32_t id = -1;
      float score = 0;
      uint32_t length = 0;  // of its last piece; 0: there is none
    };
    std::vector<Path> paths(text.size() + 1);
    for (size_t at = 0; at < text.size();) {
      const size_t character = std::max<size_t>(1, utf8_character(text.substr(at)));
      const float score_here = paths[at].score;
      const auto try_piece = [&](int32_t id, size_t length, double score) {
        Path& path = paths[at + length];
        if (path.length == 0 || score > path.score)
          path = {id, static_cast<float>(score), static_cast<uint32_t>(length)};
      };
      bool known = false;
      trie_.each(text.substr(at), [&](int32_t id, size_t length) {
        const SentencePiece& piece = model_.pieces[static_cast<size_t>(id)];
        // Compared as double, kept as float, as the library does: ties must fall the same way.
        const double score = piece.type == PieceType::kUserDefined
                                 ? static_cast<float>(length) * best_score_ - 0.1
                                 : piece.score;
        try_piece(id, length, score + score_here);
        known = known || length == character;
      });
      if (!known) try_piece(model_.unknown, character, unknown_score_ + score_here);
      at += character;
    }
    const size_t first = found.size();
    for (size_t end = text.size(); end > 0; end -= paths[end].length)
      found.push_back({paths[end].id, text.substr(end - paths[end].length, paths[end].length)});
    std::reverse(found.begin() + static_cast<std::ptrdiff_t>(first), found.end());
  }

 private:
  const SentencePieceModel& model_;
  PrefixTrie trie_;
  float best_score_ = FLT_MIN, unknown_score_ = 0;
};

}  // namespace

std::unique_ptr<PieceFinder> make_unigram_finder(const SentencePieceModel& model) {
  return std::make_unique<UnigramFinder>(model);
}

}  // namespace dp
