// Long sequences through a model, a block of tokens at a time.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "nn/language_model.h"

namespace dp {

/// Feeds ids [B,T] to a model; the state goes from block to block.
class BlockReader {
 public:
  BlockReader(const LanguageModel& model, at::Tensor ids, ModelState& state);

  bool done() const { return end_ == ids_.size(1); }
  /// Features [B,t,D] of the next `most` tokens, or of what is left. 512 are rows enough for matrix products to run at full
  /// speed, and a few MB of activations per layer.
  at::Tensor next(int64_t most = 512);
  /// The block read last is tokens begin() .. end()-1.
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }

 private:
  const LanguageModel& model_;
  at::Tensor ids_;
  ModelState& state_;
  int64_t begin_ = 0, end_ = 0;
};

/// Features [B,D] of the last of ids [B,T], T at least 1.
at::Tensor last_features(const LanguageModel& model, const at::Tensor& ids, ModelState& state);

/// [sequences,length], zeros where a sequence has ended. A model is causal: they change nothing before them.
at::Tensor padded_ids(std::span<const std::vector<int64_t>> sequences, size_t length);

}  // namespace dp
