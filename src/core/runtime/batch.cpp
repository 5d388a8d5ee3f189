#include "runtime/batch.h"

#include "base/error.h"

namespace dp::runtime {

void Batch::join(State state) { states_.push_back(std::make_unique<State>(std::move(state))); }

std::span<const float> Batch::step(std::span<const int64_t> tokens) {
  if (tokens.size() != size())
    throw InputError("a step needs one token per row, " + std::to_string(size()) + ", got " +
                     std::to_string(tokens.size()));
  segments_.clear();
  for (size_t row = 0; row < size(); ++row)
    segments_.push_back({tokens.subspan(row, 1), states_[row].get()});
  const std::span<const float> features = runner_->features(segments_);
  const size_t count = size() * static_cast<size_t>(runner_->model().config().vocab_size);
  if (logits_.size() < count) logits_.resize(count);
  const auto logits = std::span(logits_).first(count);
  runner_->logits(features, logits);
  return logits;
}

State Batch::leave(size_t row) {
  std::swap(states_[row], states_.back());
  State state = std::move(*states_.back());
  states_.pop_back();
  return state;
}

}  // namespace dp::runtime
