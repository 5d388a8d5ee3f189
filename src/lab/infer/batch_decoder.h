// Decoding many sequences together: the weights are read once for all of them.
// B rows, one per sequence; T tokens, D model width.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "nn/language_model.h"

namespace dp {

/// Part of a prompt, and the state that it goes on from and leaves behind. An empty state: the beginning.
struct PromptPiece {
  std::span<const int64_t> tokens;  // at least one
  ModelState* state = nullptr;
};

/// The states of all rows lie stacked in one tensor per part of a layer. Rows join and leave between steps.
/// A row's logits are those of a Session to rounding, not to the bit: matrix products of different heights add
/// in different orders. States that grow with the sequence (Transformer) cannot be stacked; those rows are
/// decoded one by one.
class BatchDecoder {
 public:
  explicit BatchDecoder(std::shared_ptr<const LanguageModel> model);

  int64_t size() const { return rows_; }  // B

  /// Feeds all pieces at once, apart from the rows. Returns features [T,D] of each piece.
  std::vector<at::Tensor> take_in(std::span<const PromptPiece> pieces) const;
  /// Sequences that have seen a token, each a state of one sequence, become the last rows. Copies the states.
  void join(std::span<const ModelState> sequences);
  /// One token for each row -> logits [B,vocab] of the tokens after them.
  at::Tensor step(std::span<const int64_t> tokens);
  /// The last row moves to the place of `row`.
  void leave(int64_t row);
  /// A copy that shares no memory.
  ModelState state(int64_t row) const;

 private:
  void take_in_together(std::span<const PromptPiece> pieces,
                        std::span<at::Tensor* const> features) const;

  std::shared_ptr<const LanguageModel> model_;
  bool grows_ = false;
  int64_t rows_ = 0;
  ModelState stacked_;
  std::vector<ModelState> alone_;  // instead of stacked_, if states grow
};

}  // namespace dp
