#include "runtime/runner.h"

#include "base/error.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"

namespace dp::runtime {

Runner::Runner(std::shared_ptr<const Model> model, Executor& executor)
    : model_(std::move(model)), work_(executor) {}

void Runner::check_tokens(std::span<const int64_t> tokens) const {
  const int64_t vocab = model_->config().vocab_size;
  for (const int64_t token : tokens)
    if (token < 0 || token >= vocab)
      throw InputError("tokens must be from 0 to " + std::to_string(vocab - 1) + ", got " +
                       std::to_string(token));
}

std::span<const float> Runner::features(std::span<const Segment> segments,
                                        std::vector<std::vector<float>>* residuals) {
  size_t M = 0;
  for (const Segment& segment : segments) {
    check_tokens(segment.tokens);
    M += segment.tokens.size();
  }
  if (M == 0) return {};
  for (const Segment& segment : segments)
    if (segment.state->layers.empty()) *segment.state = model_->new_state();
  const auto D = static_cast<size_t>(model_->config().hidden_size);
  float* x = work_.floats(Workspace::kResidual, M * D);
  embed(segments, x);
  const auto keep = [&] {
    if (residuals != nullptr) residuals->emplace_back(x, x + M * D);
  };
  keep();
  for (size_t layer = 0; layer < model_->blocks().size(); ++layer) {
    const Block& block = model_->blocks()[layer];
    rows_.clear();
    size_t first = 0;
    for (const Segment& segment : segments) {
      const size_t count = segment.tokens.size();
      if (count == 0) continue;
      rows_.push_back({first, count, segment.state->layers[layer].data()});
      first += count;
    }
    block.mixer->forward(normalise(x, M, block.mixer_norm, Workspace::kNormed), rows_, x, work_);
    run_mlp(block, M, x);
    keep();
  }
  for (const Segment& segment : segments)
    segment.state->tokens_seen += static_cast<int64_t>(segment.tokens.size());
  return {normalise(x, M, model_->norm(), Workspace::kFeatures), M * D};
}

void Runner::embed(std::span<const Segment> segments, float* x) const {
  const auto D = static_cast<size_t>(model_->config().hidden_size);
  for (const Segment& segment : segments)
    for (const int64_t token : segment.tokens) {
      model_->embeddings().widen_row(static_cast<size_t>(token), x);
      x += D;
    }
}

void Runner::run_mlp(const Block& block, size_t M, float* x) {
  const size_t width = block.gate_proj.rows;
  const float* h = normalise(x, M, block.mlp_norm, Workspace::kNormed);
  float* gate = work_.floats(Workspace::kGate, M * width);
  float* up = work_.floats(Workspace::kUp, M * width);
  work_.multiply(h, M, {{&block.gate_proj, gate}, {&block.up_proj, up}});
  float* activated = work_.floats(Workspace::kActivated, M * width);
  swiglu_forward(gate, up, M * width, activated, work_.executor_for(M * width));
  work_.multiply(activated, M, {{&block.down_proj, x, true}});
}

const float* Runner::normalise(const float* x, size_t M, const std::vector<float>& weight,
                               Workspace::Slot slot) {
  const size_t D = weight.size();
  float* y = work_.floats(slot, M * D);
  rms_norm_forward({M, D, model_->config().norm_eps, x, weight.data(), nullptr}, y,
                   work_.executor_for(M * D));
  return y;
}

void Runner::logits(std::span<const float> features, std::span<float> logits) {
  const size_t rows = features.size() / static_cast<size_t>(model_->config().hidden_size);
  work_.multiply(features.data(), rows, {{&model_->head(), logits.data()}});
}

}  // namespace dp::runtime
