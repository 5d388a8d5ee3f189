#include "runtime/session.h"

#include "runtime/state_file.h"

namespace dp::runtime {

Session::Session(Runner& runner) : runner_(&runner), state_(runner.model().new_state()) {}

void Session::feed(std::span<const int64_t> tokens) {
  runner_->check_tokens(tokens);
  const auto D = static_cast<size_t>(runner_->model().config().hidden_size);
  while (!tokens.empty()) {
    const auto block = tokens.first(std::min(tokens.size(), Runner::kBlock));
    const std::span<const float> features = runner_->features({block, &state_});
    tokens = tokens.subspan(block.size());
    if (!tokens.empty()) continue;
    logits_.resize(static_cast<size_t>(runner_->model().config().vocab_size));
    runner_->logits(features.last(D), logits_);
  }
}

void Session::save(const std::filesystem::path& path) const {
  write_state(path, runner_->model(), state_, logits_);
}

void Session::restore(const std::filesystem::path& path) {
  read_state(path, runner_->model(), state_, logits_);
}

}  // namespace dp::runtime
