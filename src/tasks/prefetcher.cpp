#include "tasks/prefetcher.h"

#include <utility>

namespace dp {

Prefetcher::Prefetcher(std::shared_ptr<const Task> task, Split split, uint64_t seed, size_t depth)
    : batches_(
          [task = std::move(task), split, seed](const Request& r) {
            return task->batch(split, seed, r.index, r.batch_size, r.difficulty);
          },
          [](const Request& r) {
            return Request{r.index + 1, r.batch_size, r.difficulty};
          },
          depth) {}

Batch Prefetcher::batch(uint64_t index, int64_t batch_size, const Difficulty& difficulty) {
  return batches_.get({index, batch_size, difficulty});
}

}  // namespace dp
