// Batches of text to predict, from a dataset of tokens.
#pragma once
#include <cstdint>
#include <memory>

#include "tasks/task.h"
#include "text/token_shards.h"

namespace dp {

struct TextBatchOptions {
  int64_t length = 1024;            // T, of each row
  uint64_t seed = 0;                // of the order
  bool shuffled = true;             // otherwise in the order of the dataset: for evaluation
  bool reset_at_documents = false;  // nothing of one document is known in the next
};

/// The stream of all documents is cut into windows of T tokens (with their targets T+1: neighbours share one); the
/// fewer than T+1 at its end are left out. An epoch goes through all windows, each exactly once, in an order of its
/// own. What a batch holds depends on dataset, options and arguments alone, and the same windows come in batches of any
/// size: to go on where one stopped takes nothing but the index. With reset_at_documents batches have cu_seqlens, and
/// what follows the end of a document is not asked. Const, and therefore callable from several threads
/// at once.
class TextBatches {
 public:
  /// Throws InputError for a dataset that has not a single window.
  TextBatches(std::shared_ptr<const TokenDataset> dataset, const TextBatchOptions& options);

  const TokenDataset& dataset() const { return *dataset_; }
  const TextBatchOptions& options() const { return options_; }
  int64_t vocab_size() const { return dataset_->manifest().vocab_size; }
  uint64_t num_windows() const { return num_windows_; }

  /// Windows index * batch_size and following of the endless sequence of epochs. Of several processes, `rank` of
  /// `num_ranks` gets rows rank, rank + num_ranks, ... of that. Throws InputError for no rows.
  Batch batch(uint64_t index, int64_t batch_size, int64_t rank = 0, int64_t num_ranks = 1) const;

  /// Windows first, first + step, ... of the endless sequence of epochs, `count` of them.
  Batch windows(uint64_t first, int64_t count, uint64_t step = 1) const;

  /// The window that comes as the `number`-th, from 0 on without end.
  uint64_t window(uint64_t number) const;

 private:
  std::shared_ptr<const TokenDataset> dataset_;
  TextBatchOptions options_;
  uint64_t num_windows_ = 0;
};

}  // namespace dp
