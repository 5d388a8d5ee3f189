#include "tasks/batch_prefetcher.h"

#include <utility>

namespace dp {

BatchPrefetcher::BatchPrefetcher(std::shared_ptr<const Task> task, Split split, uint64_t seed, size_t depth,
                       Share share)
    : batches_(
          [task = std::move(task), split, seed, share](const Request& r) {
            const int64_t begin = share.begin(r.batch_size), end = share.end(r.batch_size);
            const auto first =
                r.index * static_cast<uint64_t>(r.batch_size) + static_cast<uint64_t>(begin);
            return task->sequences(split, seed, first, end - begin, r.difficulty);
          },
          [](const Request& r) {
            return Request{r.index + 1, r.batch_size, r.difficulty};
          },
          depth) {}

Batch BatchPrefetcher::batch(uint64_t index, int64_t batch_size, const Difficulty& difficulty) {
  return batches_.get({index, batch_size, difficulty});
}

}  // namespace dp
