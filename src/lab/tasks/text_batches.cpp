#include "tasks/text_batches.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check_input.h"
#include "base/error.h"
#include "base/quote.h"
#include "tasks/shuffle.h"

namespace dp {

TextBatches::TextBatches(std::shared_ptr<const TokenDataset> dataset,
                         const TextBatchOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  DP_CHECK_INPUT(options.length >= 1, "TextBatches: length must be at least 1, got ",
                 options.length);
  const uint64_t tokens = dataset_->num_tokens();
  num_windows_ = tokens == 0 ? 0 : (tokens - 1) / static_cast<uint64_t>(options.length);
  if (num_windows_ == 0)
    throw InputError(quote(dataset_->directory().string()) + " has " + std::to_string(tokens) +
                     " tokens, expected at least " + std::to_string(options.length + 1) +
                     " for sequences of " + std::to_string(options.length));
}

uint64_t TextBatches::window(uint64_t number) const {
  const uint64_t epoch = number / num_windows_, place = number % num_windows_;
  if (!options_.shuffled) return place;
  return Shuffle(num_windows_, RandomStream({options_.seed, epoch}).next())(place);
}

Batch TextBatches::batch(uint64_t index, int64_t batch_size, int64_t rank,
                         int64_t num_ranks) const {
  DP_CHECK_INPUT(num_ranks >= 1 && rank >= 0 && rank < num_ranks, "TextBatches: rank must be 0 to ",
                 num_ranks - 1, ", got ", rank);
  DP_CHECK_INPUT(batch_size > rank, "TextBatches: batch_size must be more than the rank, ", rank,
                 ", got ", batch_size);
  return windows(index * static_cast<uint64_t>(batch_size) + static_cast<uint64_t>(rank),
                 (batch_size - rank + num_ranks - 1) / num_ranks, static_cast<uint64_t>(num_ranks));
}

Batch TextBatches::windows(uint64_t first, int64_t count, uint64_t step) const {
  const int64_t B = count, T = options_.length;
  Batch batch{at::empty({B, T}, at::kLong), at::empty({B, T}, at::kLong), {}};
  std::vector<int64_t> row(static_cast<size_t>(T) + 1), begins;
  for (int64_t b = 0; b < B; ++b) {
    const uint64_t begin =
        window(first + static_cast<uint64_t>(b) * step) * static_cast<uint64_t>(T);
    dataset_->read(begin, row);
    std::copy_n(row.begin(), T, batch.tokens.data_ptr<int64_t>() + b * T);
    auto* targets = batch.targets.data_ptr<int64_t>() + b * T;
    std::copy_n(row.begin() + 1, T, targets);
    if (!options_.reset_at_documents) continue;
    begins.push_back(b * T);
    for (const uint64_t end : dataset_->document_ends(begin, begin + static_cast<uint64_t>(T))) {
      const auto place = static_cast<int64_t>(end - begin);  // 1 .. T
      targets[place - 1] = kNothingAsked;
      if (place < T) begins.push_back(b * T + place);
    }
  }
  if (options_.reset_at_documents) {
    begins.push_back(B * T);
    batch.cu_seqlens = at::tensor(begins, at::kLong);
  }
  return batch;
}

}  // namespace dp
