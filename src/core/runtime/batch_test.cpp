#include "runtime/batch.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/session.h"
#include "runtime/test_models.h"

namespace dp::runtime {
namespace {

std::vector<int64_t> some_tokens(const ModelConfig& config, int64_t count, int64_t first) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back((first + 7 * i + i * i) % config.vocab_size);
  return tokens;
}

/// A batch beside sessions that see the same tokens.
class Pairs {
 public:
  explicit Pairs(Runner& runner) : runner_(runner), batch_(runner) {}

  void enter(int64_t count, int64_t first_name) {
    for (int64_t i = 0; i < count; ++i) {
      const auto prompt = some_tokens(config(), 1 + 3 * i + first_name, first_name + i);
      State state = runner_.model().new_state();
      runner_.features({prompt, &state});
      batch_.join(std::move(state));
      rows_.push_back({Session(runner_), first_name + i});
      rows_.back().session.feed(prompt);
    }
  }
  void step(int64_t salt) {
    std::vector<int64_t> tokens;
    for (const Row& row : rows_) tokens.push_back((row.name * 5 + salt) % config().vocab_size);
    const std::span<const float> logits = batch_.step(tokens);
    const auto vocab = static_cast<size_t>(config().vocab_size);
    ASSERT_EQ(logits.size(), rows_.size() * vocab);
    const std::vector<float> copy(logits.begin(), logits.end());
    for (size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].session.feed(tokens[i]);
      EXPECT_LT(distance(std::span(copy).subspan(i * vocab, vocab), rows_[i].session.logits()),
                kLogitTolerance)
          << "row " << i << " after " << salt;
    }
  }
  void leave(size_t row) {
    const State state = batch_.leave(row);
    EXPECT_EQ(state.tokens_seen, rows_[row].session.tokens_seen());
    std::swap(rows_[row], rows_.back());
    rows_.pop_back();
  }
  size_t size() const { return batch_.size(); }

 private:
  struct Row {
    Session session;
    int64_t name;
  };
  const ModelConfig& config() const { return runner_.model().config(); }
  Runner& runner_;
  Batch batch_;
  std::vector<Row> rows_;
};

TEST(Batch, RowsThatJoinAndLeaveEqualSessions) {
  SerialExecutor serial;
  for (const ModelConfig& config : some_configs()) {
    SCOPED_TRACE(describe(config));
    Runner runner(random_model(config), serial);
    Pairs pairs(runner);
    pairs.enter(1, 1);
    pairs.step(0);
    pairs.enter(3, 2);
    pairs.step(1);
    pairs.leave(1);
    pairs.step(2);
    pairs.leave(2), pairs.leave(0);
    pairs.enter(12, 8);  // more than the products treat as few
    pairs.step(3);
    while (pairs.size() > 0) pairs.leave(0);
    pairs.enter(2, 3);
    pairs.step(4);
  }
}

// Many rows take their steps each by itself, few share out each part of a step.
TEST(Batch, BitsDoNotDependOnThreads) {
  for (const ModelConfig& config : some_configs()) {
    SCOPED_TRACE(describe(config));
    const auto model = random_model(config);
    std::vector<float> want;
    for (const int threads : {1, 2, 3, 4}) {  // 10 rows are many for two threads
      ThreadPool pool(threads);
      Runner runner(model, pool);
      Batch batch(runner);
      const std::vector<int64_t> tokens = some_tokens(config, 10, 1);
      for (size_t row = 0; row < tokens.size(); ++row) batch.join(model->new_state());
      std::vector<float> got;
      for (int step = 0; step < 3; ++step) {
        const std::span<const float> logits = batch.step(tokens);
        got.insert(got.end(), logits.begin(), logits.end());
      }
      if (threads == 1) want = got;
      EXPECT_EQ(got, want) << threads;
    }
  }
}

TEST(Batch, AStateCopiedOutGoesOnAlone) {
  SerialExecutor serial;
  Runner runner(random_model(some_configs()[7]), serial);
  Batch batch(runner), other(runner);
  for (const int64_t first : {0, 1}) {
    State state = runner.model().new_state();
    runner.features({some_tokens(runner.model().config(), 5, first), &state});
    batch.join(state);
  }
  other.join(batch.state(1));
  const std::span<const float> both = batch.step(std::vector<int64_t>{1, 2});
  const std::vector<float> want(both.begin() + static_cast<ptrdiff_t>(both.size() / 2), both.end());
  EXPECT_LT(distance(other.step(std::vector<int64_t>{2}), std::span<const float>(want)),
            kLogitTolerance);
}

TEST(Batch, WantsATokenForEachRow) {
  SerialExecutor serial;
  Runner runner(random_model(some_configs()[0]), serial);
  Batch batch(runner);
  EXPECT_THROW(batch.step(std::vector<int64_t>{1}), InputError);
  EXPECT_TRUE(batch.step({}).empty());
}

}  // namespace
}  // namespace dp::runtime
