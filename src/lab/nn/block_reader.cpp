#include "nn/block_reader.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace dp {

BlockReader::BlockReader(const LanguageModel& model, at::Tensor ids, ModelState& state)
    : model_(model), ids_(std::move(ids)), state_(state) {}

at::Tensor BlockReader::next(int64_t most) {
  begin_ = end_;
  end_ = std::min(ids_.size(1), begin_ + most);
  ForwardOptions options;
  options.state = &state_;
  return model_.features(ids_.slice(1, begin_, end_), options);
}

at::Tensor last_features(const LanguageModel& model, const at::Tensor& ids, ModelState& state) {
  at::Tensor last;
  for (BlockReader blocks(model, ids, state); !blocks.done();) last = blocks.next().select(1, -1);
  return last;
}

at::Tensor padded_ids(std::span<const std::vector<int64_t>> sequences, size_t length) {
  const at::Tensor ids = at::zeros(
      {static_cast<int64_t>(sequences.size()), static_cast<int64_t>(length)}, at::kLong);
  for (size_t i = 0; i < sequences.size(); ++i)
    std::copy_n(sequences[i].data(), std::min(length, sequences[i].size()),
                ids.data_ptr<int64_t>() + i * length);
  return ids;
}

}  // namespace dp
