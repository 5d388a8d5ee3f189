#include "theory/answerer.h"

#include <algorithm>

#include "base/executor.h"
#include "runtime/runner.h"

namespace dp::theory {
namespace {

constexpr size_t kTokensPerPass = 1024;  // of one forward pass

// What is left of a sequence, and where its answers go.
struct Unread {
  std::span<const int64_t> tokens;
  runtime::State* state;
  Tokens* answers;
};

// One thread's share of the work.
class ModelReader {
 public:
  ModelReader(std::shared_ptr<const runtime::Model> model, Executor& executor)
      : runner_(std::move(model), executor) {}

  /// A pass takes some tokens of every sequence: matrix products have many rows even if all words are short.
  void read(std::vector<Unread> unread) {
    while (!unread.empty()) {
      const size_t each = std::max<size_t>(1, kTokensPerPass / unread.size());
      segments_.clear();
      for (const Unread& one : unread)
        segments_.push_back({one.tokens.first(std::min(each, one.tokens.size())), one.state});
      append_answers(unread);
      for (size_t i = 0; i < unread.size(); ++i)
        unread[i].tokens = unread[i].tokens.subspan(segments_[i].tokens.size());
      std::erase_if(unread, [](const Unread& one) { return one.tokens.empty(); });
    }
  }

 private:
  void append_answers(const std::vector<Unread>& unread) {
    const auto vocab = static_cast<size_t>(runner_.model().config().vocab_size);
    const std::span<const float> features = runner_.features(segments_);
    size_t rows = 0;
    for (const runtime::Segment& segment : segments_) rows += segment.tokens.size();
    logits_.resize(rows * vocab);
    runner_.logits(features, logits_);
    auto row = logits_.begin();
    for (size_t i = 0; i < unread.size(); ++i)
      for (size_t t = 0; t < segments_[i].tokens.size();
           ++t, row += static_cast<std::ptrdiff_t>(vocab))
        unread[i].answers->push_back(
            std::max_element(row, row + static_cast<std::ptrdiff_t>(vocab)) - row);
  }

  runtime::Runner runner_;
  std::vector<runtime::Segment> segments_;
  std::vector<float> logits_;
};

// Threads take some sequences each, with which they are busy on their own.
class RuntimeAnswerer final : public Answerer {
 public:
  RuntimeAnswerer(std::shared_ptr<const runtime::Model> model, int threads)
      : model_(std::move(model)), pool_(threads), together_(model_, pool_) {
    for (int i = 0; i < threads; ++i) readers_.emplace_back(model_, serial_);
  }

  const ModelConfig& config() const override { return model_->config(); }

  std::vector<Tokens> answers(std::span<const Tokens> sequences) override {
    std::vector<Tokens> answers(sequences.size());
    const size_t groups = std::min(readers_.size(), sequences.size());
    pool_.run(groups, [&](size_t group) {
      const size_t begin = sequences.size() * group / groups,
                   end = sequences.size() * (group + 1) / groups;
      for (size_t first = begin; first < end; first += kSequencesAtOnce) {
        const size_t count = std::min(kSequencesAtOnce, end - first);
        std::vector<runtime::State> states(count);
        std::vector<Unread> unread;
        for (size_t i = 0; i < count; ++i)
          if (!sequences[first + i].empty())
            unread.push_back({sequences[first + i], &states[i], &answers[first + i]});
        readers_[group].read(std::move(unread));
      }
    });
    return answers;
  }

  void restart() override { state_ = {}; }

  Tokens next_answers(std::span<const int64_t> tokens) override {
    Tokens answers;
    if (!tokens.empty()) together_.read({{tokens, &state_, &answers}});
    return answers;
  }

 private:
  static constexpr size_t kSequencesAtOnce = 256;

  std::shared_ptr<const runtime::Model> model_;
  ThreadPool pool_;
  SerialExecutor serial_;
  std::vector<ModelReader> readers_;  // one for each thread
  ModelReader together_;
  runtime::State state_;
};

}  // namespace

std::unique_ptr<Answerer> make_answerer(std::shared_ptr<const runtime::Model> model, int threads) {
  return std::make_unique<RuntimeAnswerer>(std::move(model), threads);
}

}  // namespace dp::theory
