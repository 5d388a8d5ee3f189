#include "serve/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/generate.h"
#include "runtime/session.h"
#include "runtime/test_models.h"
#include "serve/completion.h"
#include "serve/completion_json.h"

namespace dp::serve {
namespace {

using runtime::random_model;
using runtime::some_configs;

/// Remembers what it hears.
class Memory : public Listener {
 public:
  explicit Memory(int64_t copies = 1) : tokens(copies), ends(copies) {}

  bool wanted() const override { return is_wanted; }
  void on_prompt(std::vector<ScoredToken> scores) override { prompt = std::move(scores); }
  bool on_token(int64_t copy, ScoredToken token, bool) override {
    tokens[copy].push_back(token.token);
    last = std::move(token);
    return !stop_after || tokens[copy].size() < *stop_after;
  }
  void on_state(int64_t, const runtime::State&) override { ++states; }
  void on_end(int64_t copy, End end) override {
    const std::scoped_lock lock(mutex);
    ends[copy] = end;
    ++ended;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(
        changed.wait_for(lock, std::chrono::seconds(60), [&] { return ended == ends.size(); }));
  }

  std::vector<std::vector<int64_t>> tokens;
  std::vector<std::optional<End>> ends;
  std::vector<ScoredToken> prompt;
  ScoredToken last;
  std::optional<size_t> stop_after;
  std::atomic<bool> is_wanted{true};
  std::atomic<int> states{0};

 private:
  std::mutex mutex;
  std::condition_variable changed;
  size_t ended = 0;
};

std::vector<int64_t> make_prompt(const ModelConfig& config, int64_t length, int64_t first) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < length; ++i)
    tokens.push_back((first + 5 * i + i * i) % config.vocab_size);
  return tokens;
}

GenerationRequest make_request(std::vector<int64_t> prompt, int64_t max_tokens,
                             const std::shared_ptr<Memory>& listener) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.copies = static_cast<int64_t>(listener->tokens.size());
  request.listener = listener;
  return request;
}

std::vector<GenerationRequest> only(GenerationRequest request) {
  std::vector<GenerationRequest> list;
  list.push_back(std::move(request));
  return list;
}

std::vector<int64_t> continue_alone(const std::shared_ptr<const runtime::Model>& model,
                                    const std::vector<int64_t>& prompt, int64_t max_tokens) {
  SerialExecutor serial;
  runtime::Runner runner(model, serial);
  runtime::Session session(runner);
  runtime::GenerateOptions options;
  options.max_tokens = max_tokens;
  return runtime::generate(session, prompt, options);
}

TEST(Engine, ManyAtOnceAreEachAsAlone) {
  for (const ModelConfig& config : {some_configs()[3], some_configs()[13]}) {
    SCOPED_TRACE(runtime::describe(config));
    const auto model = random_model(config);
    EngineOptions options;
    options.most_rows = 5;  // so that some wait and some join late
    options.prompt_tokens = 16;
    Engine engine(model, options);
    std::vector<std::shared_ptr<Memory>> heard;
    for (int64_t i = 0; i < 23; ++i) {
      heard.push_back(std::make_shared<Memory>());
      ASSERT_TRUE(engine.submit(
          only(make_request(make_prompt(config, 1 + 3 * (i % 9), i), 3 + i % 11, heard.back()))));
    }
    for (int64_t i = 0; i < 23; ++i) {
      heard[i]->wait();
      EXPECT_EQ(heard[i]->tokens[0],
                continue_alone(model, make_prompt(config, 1 + 3 * (i % 9), i), 3 + i % 11))
          << i;
      EXPECT_EQ(heard[i]->ends[0], End::kLength);
    }
    EXPECT_EQ(engine.counts().waiting(), 0);
  }
}

TEST(Engine, WhoHearsATokenIsCounted) {
  struct Counting : Memory {
    using Memory::Memory;
    bool on_token(int64_t copy, ScoredToken token, bool ends) override {
      active.push_back(engine->counts().active);
      return Memory::on_token(copy, std::move(token), ends);
    }
    const Engine* engine = nullptr;
    std::vector<int64_t> active;
  };
  const ModelConfig config = some_configs()[5];
  Engine engine(random_model(config), {});
  const auto heard = std::make_shared<Counting>(2);
  heard->engine = &engine;
  ASSERT_TRUE(engine.submit(only(make_request(make_prompt(config, 5, 1), 3, heard))));
  heard->wait();
  EXPECT_EQ(heard->active, (std::vector<int64_t>{1, 2, 2, 2, 2, 2}));
}

TEST(Engine, ReusesPromptsAndGivesTheSame) {
  const ModelConfig config = some_configs()[5];
  const auto model = random_model(config);
  Engine engine(model, {});
  const std::vector<int64_t> prompt = make_prompt(config, 700, 1);
  std::vector<std::vector<int64_t>> results;
  for (int round = 0; round < 2; ++round) {
    const auto heard = std::make_shared<Memory>();
    ASSERT_TRUE(engine.submit(only(make_request(prompt, 9, heard))));
    heard->wait();
    results.push_back(heard->tokens[0]);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(engine.counts().cache_hits, 1);
  EXPECT_EQ(engine.counts().cached_tokens, 700);
  EXPECT_EQ(engine.counts().prompt_tokens, 700);

  // Another end: the part up to the last common snapshot, 512 tokens, is known.
  std::vector<int64_t> other = prompt;
  other[600] = (other[600] + 1) % config.vocab_size;
  const auto heard = std::make_shared<Memory>();
  ASSERT_TRUE(engine.submit(only(make_request(other, 9, heard))));
  heard->wait();
  EXPECT_EQ(engine.counts().cached_tokens, 700 + 512);
  EXPECT_EQ(heard->tokens[0], continue_alone(model, other, 9));
}

TEST(Engine, CopiesDifferAndRepeatWithTheirSeed) {
  const ModelConfig config = some_configs()[5];
  Engine engine(random_model(config), {});
  std::vector<std::shared_ptr<Memory>> heard;
  for (int round = 0; round < 2; ++round) {
    heard.push_back(std::make_shared<Memory>(4));
    GenerationRequest request = make_request(make_prompt(config, 4, 1), 20, heard.back());
    request.sampling.temperature = 1.5;
    request.sampling.seed = 9;
    ASSERT_TRUE(engine.submit(only(std::move(request))));
    heard.back()->wait();
  }
  EXPECT_EQ(heard[0]->tokens, heard[1]->tokens);
  EXPECT_NE(heard[0]->tokens[0], heard[0]->tokens[1]);
}

TEST(Engine, ScoresAreLogSoftmax) {
  const ModelConfig config = some_configs()[5];
  const auto model = random_model(config);
  Engine engine(model, {});
  const std::vector<int64_t> prompt = make_prompt(config, 300, 1);
  const auto heard = std::make_shared<Memory>();
  GenerationRequest request = make_request(prompt, 1, heard);
  request.score_prompt = true;
  request.top = 3;
  ASSERT_TRUE(engine.submit(only(std::move(request))));
  heard->wait();
  ASSERT_EQ(heard->prompt.size(), 300u);
  EXPECT_TRUE(std::isnan(heard->prompt[0].logprob));
  const std::vector<double> logits =
      runtime::reference_logits(config, runtime::random_arrays(config), prompt);
  const auto vocab = static_cast<size_t>(config.vocab_size);
  const auto logprob = [&](size_t place, size_t token) {
    double sum = 0;
    for (size_t i = 0; i < vocab; ++i) sum += std::exp(logits[place * vocab + i]);
    return logits[place * vocab + token] - std::log(sum);
  };
  const auto best = [&](size_t place) {
    const auto row = logits.begin() + static_cast<ptrdiff_t>(place * vocab);
    const auto most = std::max_element(row, row + static_cast<ptrdiff_t>(vocab));
    return logprob(place, static_cast<size_t>(most - row));
  };
  for (size_t i = 1; i < 300; ++i) {
    const ScoredToken& score = heard->prompt[i];
    EXPECT_EQ(score.token, prompt[i]);
    EXPECT_NEAR(score.logprob, logprob(i - 1, static_cast<size_t>(prompt[i])), 1e-4);
    ASSERT_EQ(score.top.size(), 3u);
    EXPECT_NEAR(score.top[0].second, best(i - 1), 1e-4);
    EXPECT_GE(score.top[0].second, score.top[1].second);
  }
  EXPECT_NEAR(heard->last.logprob, best(299), 1e-4);
}

TEST(Engine, EndsForTheRightReason) {
  const ModelConfig config = some_configs()[5];
  const auto model = random_model(config);
  EngineOptions options;
  options.most_rows = 4, options.most_waiting = 4;
  Engine engine(model, options);
  const std::vector<int64_t> prompt = make_prompt(config, 4, 1);

  const auto all = std::make_shared<Memory>();
  engine.submit(only(make_request(prompt, 6, all)));
  all->wait();
  const auto at_token = std::make_shared<Memory>();
  GenerationRequest request = make_request(prompt, 6, at_token);
  request.stop_tokens = {all->tokens[0][2]};
  engine.submit(only(std::move(request)));
  at_token->wait();
  EXPECT_EQ(at_token->ends[0], End::kStop);
  EXPECT_LE(at_token->tokens[0].size(), 3u);

  const auto told = std::make_shared<Memory>();
  told->stop_after = 2;
  engine.submit(only(make_request(prompt, 6, told)));
  told->wait();
  EXPECT_EQ(told->ends[0], End::kStop);
  EXPECT_EQ(told->tokens[0].size(), 2u);

  const auto nothing = std::make_shared<Memory>();
  engine.submit(only(make_request(prompt, 0, nothing)));
  nothing->wait();
  EXPECT_EQ(nothing->ends[0], End::kLength);
  EXPECT_TRUE(nothing->tokens[0].empty());

  const auto late = std::make_shared<Memory>();
  request = make_request(prompt, 1 << 30, late);
  request.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  request.state_every = 2;
  engine.submit(only(std::move(request)));
  late->wait();
  EXPECT_EQ(late->ends[0], End::kTime);
  EXPECT_GT(late->states, 1);

  std::vector<std::shared_ptr<Memory>> endless;
  for (int i = 0; i < 8; ++i) {
    endless.push_back(std::make_shared<Memory>());
    EXPECT_TRUE(engine.submit(only(make_request(prompt, 1 << 30, endless.back()))));
  }
  EXPECT_FALSE(engine.submit(only(make_request(prompt, 1, std::make_shared<Memory>()))));
  for (const auto& one : endless) one->is_wanted = false;
  for (const auto& one : endless) {
    one->wait();
    EXPECT_EQ(one->ends[0], End::kCancelled);
  }
}

TEST(Completion, TellsOfTextLogprobsAndUsage) {
  ModelConfig config = some_configs()[5];
  config.vocab_size = 258;
  const auto tokenizer = make_byte_tokenizer();
  const TokenNames names(*tokenizer);
  Engine engine(random_model(config), {});
  CompletionRequest request = parse_completion_request(
      R"({"prompt": ["ab", "cde"], "n": 2, "echo": true, "logprobs": 2, "max_tokens": 4, "temperature": 0})",
      {});
  Completion completion(request, {{'a', 'b'}, {'c', 'd', 'e'}}, *tokenizer, names);
  ASSERT_TRUE(
      engine.submit(completion.generations({}, std::chrono::steady_clock::time_point::max())));
  CompletionAnswer answer(request, completion.choices());
  CompletionEvent event;
  for (Completion::Next next;
       (next = completion.next(event, std::chrono::seconds(10))) != Completion::Next::kFinished;)
    if (next == Completion::Next::kEvent) answer.add(std::move(event));
  const auto json = nlohmann::json::parse(answer.text({"id", "m", 1}, completion.usage()));
  EXPECT_EQ(json["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(json["usage"]["completion_tokens"], 16);
  ASSERT_EQ(json["choices"].size(), 4u);
  EXPECT_EQ(json["choices"][0]["text"], json["choices"][1]["text"]);
  EXPECT_TRUE(json["choices"][2]["text"].get<std::string>().starts_with("cde"));
  const auto& logprobs = json["choices"][3]["logprobs"];
  EXPECT_EQ(logprobs["tokens"].size(), 7u);
  EXPECT_EQ(logprobs["tokens"][1], "d");
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][1].contains("d"));
  EXPECT_EQ(logprobs["text_offset"][2], 2);
}

// Sixty-four continuations do not keep a small request waiting for their end.
TEST(Engine, SharesRowsBetweenRequests) {
  const ModelConfig config = some_configs()[5];
  const auto model = random_model(config);
  EngineOptions options;
  options.most_rows = 4;
  Engine engine(model, options);
  std::vector<std::shared_ptr<Memory>> large;
  for (int64_t i = 0; i < 3; ++i) {
    large.push_back(std::make_shared<Memory>(4));
    ASSERT_TRUE(engine.submit(only(make_request(make_prompt(config, 3, i), 3000, large.back()))));
  }
  const auto small = std::make_shared<Memory>();
  ASSERT_TRUE(engine.submit(only(make_request(make_prompt(config, 5, 7), 9, small))));
  small->wait();
  EXPECT_LT(engine.counts().generated_tokens, 4 * 3000);
  EXPECT_EQ(small->tokens[0], continue_alone(model, make_prompt(config, 5, 7), 9));
  for (const auto& one : large) one->wait();
  for (const auto& one : large)
    for (const auto& tokens : one->tokens) EXPECT_EQ(tokens.size(), 3000u);
  // Rows that were put aside and came back went on where they were.
  EXPECT_EQ(large[2]->tokens[3], continue_alone(model, make_prompt(config, 3, 2), 3000));
  EXPECT_EQ(engine.counts().unfinished, 0);
}

// Large requests that come one after the other make those before them put rows aside each time; that must leave room for
// the first row of a small one.
TEST(Engine, RoomIsLeftForTheFirstRowOfEveryRequest) {
  const ModelConfig config = some_configs()[5];
  EngineOptions options;
  options.most_rows = 8;
  Engine engine(random_model(config), options);
  std::vector<std::shared_ptr<Memory>> large;
  for (int64_t i = 0; i < 4; ++i) {
    large.push_back(std::make_shared<Memory>(8));
    ASSERT_TRUE(
        engine.submit(only(make_request(make_prompt(config, 3, i), 100'000'000, large.back()))));
    const int64_t steps = engine.counts().steps;
    while (engine.counts().steps < steps + 20) std::this_thread::yield();
  }
  const auto small = std::make_shared<Memory>();
  ASSERT_TRUE(engine.submit(only(make_request(make_prompt(config, 5, 7), 9, small))));
  small->wait();
  EXPECT_EQ(small->ends[0], End::kLength);
  for (const auto& one : large) one->is_wanted = false;
  for (const auto& one : large) one->wait();
}

// More requests than rows: each has its turn.
TEST(Engine, EveryRequestHasItsTurn) {
  const ModelConfig config = some_configs()[5];
  EngineOptions options;
  options.most_rows = 2;
  Engine engine(random_model(config), options);
  std::vector<std::shared_ptr<Memory>> large;
  for (int64_t i = 0; i < 2; ++i) {
    large.push_back(std::make_shared<Memory>());
    ASSERT_TRUE(
        engine.submit(only(make_request(make_prompt(config, 3, i), 100'000'000, large.back()))));
  }
  const auto small = std::make_shared<Memory>();
  ASSERT_TRUE(engine.submit(only(make_request(make_prompt(config, 5, 7), 9, small))));
  small->wait();
  EXPECT_EQ(small->ends[0], End::kLength);
  for (const auto& one : large) {
    EXPECT_FALSE(one->ends[0]);
    one->is_wanted = false;
    one->wait();
  }
}

}  // namespace
}  // namespace dp::serve
