// A task's batches, made on a background thread while the last one is being used.
#pragma once
#include <cstdint>
#include <memory>

#include "tasks/lookahead.h"
#include "tasks/task.h"

namespace dp {

/// batch() returns, or throws, what task.batch(split, seed, ...) does, for any arguments in any order:
/// to stop and to go on takes nothing but the index, as without it. It is fast when each call asks for the
/// next index with the same sizes; another batch_size or difficulty, as a curriculum has them, costs the
/// making of one batch. With a share, only those rows of each batch are made. Its thread stops with it. For one caller at a time.
class BatchPrefetcher {
 public:
  BatchPrefetcher(std::shared_ptr<const Task> task, Split split, uint64_t seed, size_t depth = 2,
             Share share = {});

  Batch batch(uint64_t index, int64_t batch_size, const Difficulty& difficulty);

 private:
  struct Request {
    uint64_t index;
    int64_t batch_size;
    Difficulty difficulty;
    bool operator==(const Request&) const = default;
  };
  Lookahead<Request, Batch> batches_;
};

}  // namespace dp
