#include "nn/session.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_input_error.h"
#include "nn/rivals/test_rivals.h"
#include "nn/test_models.h"
#include "runtime/generate.h"

namespace dp {
namespace {
namespace fs = std::filesystem;
using runtime::generate;
using runtime::GenerateOptions;

std::shared_ptr<const LanguageModel> shared_model(const ModelConfig& config, uint64_t seed = 1) {
  return std::make_shared<const LanguageModel>(random_model(config, seed));
}

std::vector<int64_t> tokens(const ModelConfig& config, int64_t count) {
  const at::Tensor ids = random_ids(config, 1, count);
  return {ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>() + count};
}

at::Tensor copy(std::span<const float> values) {
  return at::tensor(at::ArrayRef<float>(values.data(), values.size()));
}
double error(std::span<const float> got, const at::Tensor& want) {
  return (copy(got) - want).abs().max().item<double>();
}
constexpr double kTolerance = 1e-4;  // of logits, absolute, as for the golden models

TEST(Session, OneByOneEqualsAllAtOnceForEveryCombinationOfOptions) {
  std::vector<ModelConfig> configs = every_config();
  for (const ModelConfig& rival : rival_configs()) configs.push_back(rival);
  for (const ModelConfig& config : configs) {
    SCOPED_TRACE(describe(config));
    const auto model = shared_model(config);
    const std::vector<int64_t> ids = tokens(config, 19);
    Session whole(model), steps(model);
    whole.feed(ids);
    for (const int64_t id : ids) steps.feed(id);
    EXPECT_LT(error(steps.logits(), copy(whole.logits())), kTolerance);
    EXPECT_EQ(steps.tokens_seen(), 19);
  }
}

TEST(Session, APromptLongerThanItsBlocksIsTheSame) {
  const ModelConfig config = some_configs()[5];
  const auto model = shared_model(config);
  const std::vector<int64_t> ids = tokens(config, 1300);
  Session session(model);
  session.feed(ids);
  const at::NoGradGuard no_grad;
  const at::Tensor all = at::tensor(ids, at::kLong).unsqueeze(0);
  const at::Tensor want = model->logits(model->features(all)).select(1, -1).squeeze(0);
  EXPECT_LT(error(session.logits(), want), kTolerance);
}

TEST(Session, AForkGoesItsOwnWay) {
  const ModelConfig config = some_configs()[15];
  const auto model = shared_model(config);
  Session session(model);
  session.feed(tokens(config, 8));
  const at::Tensor before = copy(session.logits());
  Session fork = session.fork();
  fork.feed(3);
  EXPECT_TRUE(at::equal(copy(session.logits()), before));
  session.feed(3);
  EXPECT_TRUE(std::ranges::equal(session.logits(), fork.logits()));
  fork.feed(4);
  EXPECT_FALSE(std::ranges::equal(session.logits(), fork.logits()));
}

class SessionFile : public testing::Test {
 protected:
  std::string error_message(Session& session) const {
    return input_error([&] { session.restore(path_); });
  }

  const TestFolder temporary_;
  const fs::path path_ = temporary_ / "state";
};

TEST_F(SessionFile, RestoringGoesOnToTheBit) {
  for (const ModelConfig& config : some_configs_and_rivals()) {
    SCOPED_TRACE(describe(config));
    const auto model = shared_model(config);
    Session session(model);
    session.feed(tokens(config, 11));
    session.save(path_);
    Session restored(model);
    restored.restore(path_);
    EXPECT_TRUE(std::ranges::equal(restored.logits(), session.logits()));
    EXPECT_EQ(restored.tokens_seen(), 11);
    for (const int64_t token : {1, 2, 3}) {
      session.feed(token);
      restored.feed(token);
    }
    EXPECT_TRUE(std::ranges::equal(restored.logits(), session.logits()));
  }
}

TEST_F(SessionFile, RefusesTheStateOfAnotherModel) {
  const ModelConfig config = some_configs()[5];
  Session session(shared_model(config, 1)), other(shared_model(config, 2));
  session.feed(1);
  session.save(path_);
  other.feed(2);
  const at::Tensor before = copy(other.logits());
  EXPECT_NE(error_message(other).find("saved with another model"), std::string::npos);
  EXPECT_TRUE(at::equal(copy(other.logits()), before));
}

TEST_F(SessionFile, RefusesWhatIsNoState) {
  Session session(shared_model(some_configs()[0]));
  EXPECT_NE(error_message(session).find(path_.string()), std::string::npos);
  std::ofstream(path_) << "not a state";
  EXPECT_NE(error_message(session).find(path_.string()), std::string::npos);
}

TEST(Generate, GreedyIsTheArgmaxOfWholeSequences) {
  const ModelConfig config = some_configs()[13];
  const auto model = shared_model(config);
  std::vector<int64_t> sequence = tokens(config, 5);
  Session session(model);
  GenerateOptions options;
  options.max_tokens = 12;
  const std::vector<int64_t> got = generate(session, sequence, options);
  const at::NoGradGuard no_grad;
  for (const int64_t token : got) {
    const at::Tensor ids = at::tensor(sequence, at::kLong).unsqueeze(0);
    const at::Tensor logits = model->logits(model->features(ids)).select(1, -1);
    EXPECT_EQ(token, logits.argmax().item<int64_t>());
    sequence.push_back(token);
  }
  EXPECT_EQ(got.size(), 12u);
  EXPECT_EQ(session.tokens_seen(), 17);
}

TEST(Generate, StopsAtStopTokensAndWhenTold) {
  const ModelConfig config = some_configs()[13];
  const auto model = shared_model(config);
  const std::vector<int64_t> prompt = tokens(config, 5);
  GenerateOptions options;
  options.max_tokens = 10;
  Session free(model);
  const std::vector<int64_t> all = generate(free, prompt, options);

  options.stop_tokens = {all[4]};
  Session stopped(model);
  const std::vector<int64_t> some = generate(stopped, prompt, options);
  const auto first = std::find(all.begin(), all.end(), all[4]);
  EXPECT_EQ(some, std::vector<int64_t>(all.begin(), first));

  options.stop_tokens = {};
  options.on_token = [count = 0](int64_t) mutable { return ++count < 3; };
  Session told(model);
  EXPECT_EQ(generate(told, prompt, options).size(), 3u);
}

TEST(Generate, NeedsSomethingToContinue) {
  Session session(shared_model(some_configs()[0]));
  EXPECT_THROW(generate(session, {}, {}), InputError);
}

}  // namespace
}  // namespace dp
