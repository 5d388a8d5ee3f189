// The public classes and the C interface against the runtime that they stand on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include "base/test_folder.h"
#include "deltaproduct/batch.h"
#include "deltaproduct/c.h"
#include "deltaproduct/convert.h"
#include "deltaproduct/error.h"
#include "deltaproduct/recurrence.h"
#include "deltaproduct/sampling.h"
#include "deltaproduct/tokenizer.h"
#include "runtime/session.h"
#include "runtime/test_models.h"

namespace deltaproduct {
namespace {

class Embedding : public testing::Test {
 protected:
  Embedding() {
    dp::runtime::write_model(directory, config, dp::runtime::random_arrays(config));
    dp::SerialExecutor serial;
    dp::runtime::Runner runner(dp::runtime::Model::open(directory), serial);
    dp::runtime::Session session(runner);
    session.feed(tokens);
    want.assign(session.logits().begin(), session.logits().end());
  }

  static double distance(std::span<const float> a, std::span<const float> b) {
    return dp::runtime::distance(a, b);
  }
  template <class F>
  static std::string error_message(const F& f) {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  dp::TestFolder folder;
  const std::filesystem::path directory = folder / "model";
  const dp::ModelConfig config = dp::runtime::some_configs()[6];
  const std::vector<int64_t> tokens = dp::runtime::random_tokens(config, 9);
  std::vector<float> want;
};

TEST_F(Embedding, SessionsBatchesAndFiles) {
  std::optional<Session> session;
  {
    const Model model = Model::open(directory);
    EXPECT_EQ(model.vocabulary_size(), config.vocab_size);
    EXPECT_EQ(model.num_layers(), config.num_hidden_layers);
    EXPECT_EQ(model.dtype(), "float32");
    EXPECT_GT(model.num_parameters(), 0);
    EXPECT_GT(model.state_bytes(), 0);
    EXPECT_GT(model.bytes_per_token(), 0);
    session.emplace(model, Threads(2));
  }  // the session keeps the model
  EXPECT_TRUE(session->logits().empty());
  session->feed(tokens);
  EXPECT_EQ(session->tokens_seen(), 9);
  EXPECT_LT(distance(session->logits(), want), 1e-5);
  session->save(folder / "state");
  Session fork = session->fork();
  fork.feed(1);
  EXPECT_EQ(session->tokens_seen(), 9);
  EXPECT_EQ(fork.tokens_seen(), 10);
  Session restored(Model::open(directory));
  restored.restore(folder / "state");
  EXPECT_LT(distance(restored.logits(), want), 1e-7);

  Batch batch(Model::open(directory));
  batch.join(restored), batch.join(*session);
  const std::vector<int64_t> next = {1, 1};
  const std::span<const float> logits = batch.step(next);
  for (const size_t row : {0, 1})
    EXPECT_LT(distance(logits.subspan(row * fork.logits().size(), fork.logits().size()), fork.logits()), 1e-4);
  batch.leave(0);
  EXPECT_EQ(batch.size(), 1u);
  EXPECT_NE(error_message([&] { batch.leave(1); }).find("no row 1"), std::string::npos);
}

TEST_F(Embedding, ErrorsAreOneTypeWithOneSentence) {
  EXPECT_NE(error_message([&] { Model::open(folder / "none"); }).find("none"), std::string::npos);
  EXPECT_NE(error_message([] { Threads threads(1025); }).find("1025"), std::string::npos);
  Session session(Model::open(directory));
  EXPECT_NE(error_message([&] { session.feed(config.vocab_size); }).find("tokens must be from 0"), std::string::npos);
  EXPECT_NE(error_message([&] { session.restore(directory / "model.safetensors"); }).find("not a saved state"),
            std::string::npos);
  EXPECT_NE(error_message([] { Sampler sampler({.temperature = -1}); }).find("temperature"), std::string::npos);
  EXPECT_NE(error_message([&] { convert(directory, folder / "x", "int2"); }).find("'int2'"), std::string::npos);
  EXPECT_NE(error_message([&] { Tokenizer::open(folder / "none"); }).find("none"), std::string::npos);
  EXPECT_NE(error_message([] { run({}); }).find("must not be null"), std::string::npos);
}

TEST_F(Embedding, ConvertsToFewerBits) {
  convert(directory, folder / "int8", "int8");
  const Model model = Model::open(folder / "int8");
  EXPECT_EQ(model.dtype(), "int8");
  EXPECT_LT(model.bytes_per_token(), Model::open(directory).bytes_per_token());
  EXPECT_NE(error_message([&] { convert(directory, folder / "int8", "int8"); }).find("exists already"), std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_EQ(entry.path().string().find("unfinished"), std::string::npos) << entry.path();
}

TEST_F(Embedding, RecurrenceOnRawMemory) {
  // Two reflections in mirrors 45 degrees apart turn a vector by 90 degrees.
  const float half = std::sqrt(0.5f);
  const float q[] = {0, 1}, k[] = {1, 0, half, half}, v[] = {0, 0}, beta[] = {2, 2};
  float state[] = {1, 0}, o[1];
  Recurrence r;
  r.N = 2, r.K = 2;
  r.q = q, r.k = k, r.v = v, r.beta = beta, r.o = o, r.state = state;
  run(r, Threads(1));
  EXPECT_NEAR(state[0], 0, 1e-6);
  EXPECT_NEAR(state[1], 1, 1e-6);
  EXPECT_NEAR(o[0], 1, 1e-6);
}

TEST_F(Embedding, TokenizersTurnTextIntoTokensAndBack) {
  const Tokenizer tokenizer = Tokenizer::open("bytes");
  const std::vector<int64_t> tokens = tokenizer.encode("dp");
  EXPECT_EQ(tokens, (std::vector<int64_t>{'d', 'p'}));
  EXPECT_EQ(tokenizer.decode(tokens), "dp");
  EXPECT_EQ(tokenizer.end_token(), 257);
  EXPECT_NE(error_message([&] { tokenizer.decode(std::vector<int64_t>{300}); }).find("300"), std::string::npos);
}

TEST_F(Embedding, TheCInterfaceDoesTheSame) {
  deltaproduct_session* session = deltaproduct_open(directory.c_str(), 1);
  ASSERT_NE(session, nullptr) << deltaproduct_error();
  EXPECT_EQ(deltaproduct_vocabulary_size(session), config.vocab_size);
  EXPECT_EQ(deltaproduct_logits(session), nullptr);
  EXPECT_EQ(deltaproduct_most_likely(session), -1);
  EXPECT_EQ(deltaproduct_prompt(session, tokens.data(), tokens.size() - 1), 0);
  EXPECT_EQ(deltaproduct_step(session, tokens.back()), 0);
  EXPECT_LT(distance({deltaproduct_logits(session), want.size()}, want), 1e-5);
  EXPECT_EQ(deltaproduct_most_likely(session), std::ranges::max_element(want) - want.begin());

  EXPECT_EQ(deltaproduct_step(session, config.vocab_size), 1);
  EXPECT_NE(std::string(deltaproduct_error()).find("tokens must be from 0"), std::string::npos);
  EXPECT_LT(distance({deltaproduct_logits(session), want.size()}, want), 1e-5);  // as before

  const std::string file = (folder / "state").string();
  EXPECT_EQ(deltaproduct_save(session, file.c_str()), 0);
  deltaproduct_session* fork = deltaproduct_fork(session);
  EXPECT_EQ(deltaproduct_step(fork, 1), 0);
  EXPECT_EQ(deltaproduct_restore(fork, file.c_str()), 0);
  EXPECT_LT(distance({deltaproduct_logits(fork), want.size()}, want), 1e-5);
  EXPECT_EQ(deltaproduct_restore(fork, "/none"), 1);
  EXPECT_EQ(deltaproduct_save(fork, "/none/x"), 1);
  deltaproduct_close(session);
  deltaproduct_close(fork);
  deltaproduct_close(nullptr);

  EXPECT_EQ(deltaproduct_open("/none", 1), nullptr);
  EXPECT_EQ(deltaproduct_open(nullptr, 1), nullptr);
  EXPECT_EQ(deltaproduct_prompt(nullptr, nullptr, 0), 1);
  // Another thread has errors of its own.
  std::thread([] { EXPECT_STREQ(deltaproduct_error(), ""); }).join();
}

}  // namespace
}  // namespace deltaproduct
