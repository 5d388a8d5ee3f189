#include "runtime/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_input_error.h"
#include "runtime/generate.h"
#include "runtime/test_models.h"

namespace dp::runtime {
namespace {
namespace fs = std::filesystem;

std::vector<float> copy_logits(const Session& session) {
  return {session.logits().begin(), session.logits().end()};
}

class Sessions : public testing::Test {
 protected:
  Runner& make_runner(const ModelConfig& config, unsigned seed = 1) {
    return *runners_.emplace_back(std::make_unique<Runner>(random_model(config, seed), serial_));
  }
  std::string error_message(Session& session) const {
    return input_error([&] { session.restore(path_); });
  }

  SerialExecutor serial_;
  std::vector<std::unique_ptr<Runner>> runners_;
  TestFolder folder_;
  fs::path path_ = folder_ / "state";
};

TEST_F(Sessions, APromptLongerThanItsBlocksIsTheSame) {
  const ModelConfig config = some_configs()[5];
  const std::vector<int64_t> tokens = random_tokens(config, 2 * Runner::kBlock + 276);
  Session session(make_runner(config));
  EXPECT_TRUE(session.logits().empty());
  session.feed(tokens);
  EXPECT_EQ(session.tokens_seen(), static_cast<int64_t>(tokens.size()));
  const std::vector<double> want = reference_logits(config, random_arrays(config), tokens);
  EXPECT_LT(distance(session.logits(), std::span(want).last(session.logits().size())),
            kLogitTolerance);
}

TEST_F(Sessions, AForkGoesItsOwnWay) {
  const ModelConfig config = some_configs()[15];
  Session session(make_runner(config));
  session.feed(random_tokens(config, 8));
  const std::vector<float> before = copy_logits(session);
  Session fork = session.fork();
  fork.feed(3);
  EXPECT_EQ(copy_logits(session), before);
  session.feed(3);
  EXPECT_EQ(copy_logits(session), copy_logits(fork));
  fork.feed(4);
  EXPECT_NE(copy_logits(session), copy_logits(fork));
}

TEST_F(Sessions, RefusesTokensOutsideTheVocabularyBeforeAnyIsTakenIn) {
  const ModelConfig config = some_configs()[2];
  Session session(make_runner(config));
  std::vector<int64_t> tokens = random_tokens(config, Runner::kBlock + 10);
  tokens.back() = config.vocab_size;
  EXPECT_THROW(session.feed(tokens), InputError);
  EXPECT_EQ(session.tokens_seen(), 0);
}

TEST_F(Sessions, RestoringGoesOnToTheBit) {
  for (const ModelConfig& config : some_configs()) {
    SCOPED_TRACE(describe(config));
    Runner& runner = make_runner(config);
    Session session(runner), restored(runner);
    session.feed(random_tokens(config, 11));
    session.save(path_);
    restored.restore(path_);
    EXPECT_EQ(copy_logits(restored), copy_logits(session));
    EXPECT_EQ(restored.tokens_seen(), 11);
    for (const int64_t token : {1, 2, 3}) {
      session.feed(token);
      restored.feed(token);
    }
    EXPECT_EQ(copy_logits(restored), copy_logits(session));
  }
}

TEST_F(Sessions, OfNothingCanBeSavedToo) {
  Runner& runner = make_runner(some_configs()[4]);
  Session session(runner), other(runner);
  session.save(path_);
  other.feed(1);
  other.restore(path_);
  EXPECT_EQ(other.tokens_seen(), 0);
  EXPECT_TRUE(other.logits().empty());
}

TEST_F(Sessions, RefuseTheStateOfAnotherModel) {
  const ModelConfig config = some_configs()[5];
  Session session(make_runner(config, 1)), other(make_runner(config, 2));
  session.feed(1);
  session.save(path_);
  other.feed(2);
  const std::vector<float> before = copy_logits(other);
  EXPECT_NE(error_message(other).find("saved with another model"), std::string::npos);
  EXPECT_EQ(copy_logits(other), before);
}

TEST_F(Sessions, RefuseWhatIsNoState) {
  Session session(make_runner(some_configs()[0]));
  EXPECT_NE(error_message(session).find(path_.string()), std::string::npos);
  std::ofstream(path_) << "not a state";
  EXPECT_NE(error_message(session).find(path_.string()), std::string::npos);
  session.feed(1);
  session.save(path_);
  fs::resize_file(path_, fs::file_size(path_) - 4);
  EXPECT_NE(error_message(session).find(path_.string()), std::string::npos);
}

TEST_F(Sessions, GreedyIsTheArgmaxOfWholeSequences) {
  const ModelConfig config = some_configs()[13];
  const Arrays arrays = random_arrays(config);
  std::vector<int64_t> sequence = random_tokens(config, 5);
  Session session(make_runner(config));
  GenerateOptions options;
  options.max_tokens = 12;
  const std::vector<int64_t> got = generate(session, sequence, options);
  for (const int64_t token : got) {
    const std::vector<double> all = reference_logits(config, arrays, sequence);
    const auto last = std::span(all).last(static_cast<size_t>(config.vocab_size));
    EXPECT_EQ(token, std::ranges::max_element(last) - last.begin());
    sequence.push_back(token);
  }
  EXPECT_EQ(got.size(), 12u);
  EXPECT_EQ(session.tokens_seen(), 17);
}

TEST_F(Sessions, GenerationStopsAtStopTokensAndWhenTold) {
  const ModelConfig config = some_configs()[13];
  Runner& runner = make_runner(config);
  const std::vector<int64_t> prompt = random_tokens(config, 5);
  GenerateOptions options;
  options.max_tokens = 10;
  Session free(runner), stopped(runner), told(runner), empty(runner);
  const std::vector<int64_t> all = generate(free, prompt, options);
  options.stop_tokens = {all[4]};
  const auto first = std::ranges::find(all, all[4]);
  EXPECT_EQ(generate(stopped, prompt, options), std::vector<int64_t>(all.begin(), first));
  options.stop_tokens = {};
  options.on_token = [count = 0](int64_t) mutable { return ++count < 3; };
  EXPECT_EQ(generate(told, prompt, options).size(), 3u);
  EXPECT_THROW(generate(empty, {}, {}), InputError);
}

}  // namespace
}  // namespace dp::runtime
