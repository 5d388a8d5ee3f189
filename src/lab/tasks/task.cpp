#include "tasks/task.h"

#include <ATen/ATen.h>

#include "base/check_input.h"

namespace dp {

Batch Batch::rows(int64_t begin, int64_t end) const {
  Batch part{tokens.slice(0, begin, end), targets.slice(0, begin, end), {}};
  if (cu_seqlens) {
    const int64_t T = tokens.size(1);
    const at::Tensor inside = (*cu_seqlens >= begin * T).logical_and_(*cu_seqlens <= end * T);
    part.cu_seqlens = cu_seqlens->masked_select(inside) - begin * T;
  }
  return part;
}

Batch Task::batch(Split split, uint64_t seed, uint64_t index, int64_t batch_size,
                  const Difficulty& difficulty) const {
  return sequences(split, seed, index * static_cast<uint64_t>(batch_size), batch_size, difficulty);
}

Batch Task::sequences(Split split, uint64_t seed, uint64_t first, int64_t count,
                      const Difficulty& difficulty) const {
  const auto [length, letters] = difficulty;
  DP_CHECK_INPUT(count >= 1, "Task: batch_size must be at least 1, got ", count);
  DP_CHECK_INPUT(length >= shortest(), "Task: length must be at least ", shortest(), ", got ",
                 length);
  DP_CHECK_INPUT(letters >= 0 && letters <= num_letters(), "Task: letters must be 0 to ",
                 num_letters(), ", got ", letters);
  return make_sequences(split, seed, first, count, difficulty);
}

Batch SequenceTask::make_sequences(Split split, uint64_t seed, uint64_t first, int64_t count,
                                   const Difficulty& difficulty) const {
  const auto [length, letters] = difficulty;
  const int64_t T = num_tokens(length);
  Batch batch{at::empty({count, T}, at::kLong), at::empty({count, T}, at::kLong), {}};
  auto* tokens = batch.tokens.data_ptr<int64_t>();
  auto* targets = batch.targets.data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t number = first + static_cast<uint64_t>(i);
    make_sequence({split, seed, number, length, letters}, tokens + i * T, targets + i * T);
  }
  return batch;
}

}  // namespace dp
