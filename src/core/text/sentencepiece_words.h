// From normalized text to pieces: the two algorithms of SentencePiece.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/sentencepiece_model.h"

namespace dp {

/// What SentencePiece puts in place of a space: U+2581.
constexpr std::string_view kSpaceSign = "\xe2\x96\x81";

/// Pieces and the text that each stands for; a character that no piece has is a piece of its own, model.unknown.
struct FoundPiece {
  int32_t id;
  std::string_view text;
};

class PieceFinder {
 public:
  virtual ~PieceFinder() = default;
  /// Appends to `found`.
  virtual void find(std::string_view text, std::vector<FoundPiece>& found) const = 0;
};

/// Both keep a reference to `model`.
std::unique_ptr<PieceFinder> make_unigram_finder(const SentencePieceModel& model);
std::unique_ptr<PieceFinder> make_bpe_finder(const SentencePieceModel& model);

}  // namespace dp
