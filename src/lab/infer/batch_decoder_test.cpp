#include "infer/batch_decoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "infer/prefix_cache.h"
#include "infer/session.h"
#include "nn/test_models.h"

namespace dp {
namespace {

constexpr double kRounding = 1e-4;  // of logits, absolute, as for sessions

double distance(const at::Tensor& got, const at::Tensor& want) {
  return (got - want).abs().max().item<double>();
}

std::vector<int64_t> some_tokens(const ModelConfig& config, int64_t count, int64_t first) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back((first + 7 * i + i * i) % config.vocab_size);
  return tokens;
}

/// Rows beside sessions that see the same tokens.
struct Pair {
  Session session;
  int64_t name;
};

TEST(BatchDecoder, RowsThatJoinAndLeaveEqualSessions) {
  for (const ModelConfig& config : test_configs_and_rivals()) {
    SCOPED_TRACE(describe(config));
    const auto model = std::make_shared<const LanguageModel>(random_model(config));
    BatchDecoder decoder(model);
    std::vector<Pair> rows;
    const auto enter = [&](int64_t count, int64_t first_name) {
      std::vector<ModelState> states(count);
      std::vector<std::vector<int64_t>> prompts;
      for (int64_t i = 0; i < count; ++i)
        prompts.push_back(some_tokens(config, 1 + 3 * i + first_name, first_name + i));
      // In two pieces each where there is enough for two.
      for (const bool second : {false, true}) {
        std::vector<PromptPiece> pieces;
        for (int64_t i = 0; i < count; ++i) {
          const std::span<const int64_t> all(prompts[i]);
          const size_t cut = (all.size() + 1) / 2;
          const auto part = second ? all.subspan(cut) : all.first(cut);
          if (!part.empty()) pieces.push_back({part, &states[i]});
        }
        if (!pieces.empty()) decoder.take_in(pieces);
      }
      for (int64_t i = 0; i < count; ++i) {
        rows.push_back({Session(model), first_name + i});
        rows.back().session.feed(prompts[i]);
      }
      decoder.join(states);
    };
    const auto step = [&](int64_t salt) {
      std::vector<int64_t> tokens;
      for (const Pair& row : rows) tokens.push_back((row.name * 5 + salt) % config.vocab_size);
      const at::Tensor logits = decoder.step(tokens);
      for (size_t i = 0; i < rows.size(); ++i) {
        rows[i].session.feed(tokens[i]);
        EXPECT_LT(distance(logits[static_cast<int64_t>(i)], rows[i].session.logits()), kRounding)
            << "row " << i << " after " << salt;
      }
    };
    const auto leave = [&](int64_t row) {
      decoder.leave(row);
      std::swap(rows[row], rows.back());
      rows.pop_back();
    };
    enter(1, 1);
    step(0);
    enter(3, 2);
    step(1);
    leave(1);
    step(2);
    leave(2), leave(0);
    enter(2, 8);
    step(3);
    while (!rows.empty()) leave(0);
    EXPECT_EQ(decoder.size(), 0);
    enter(2, 3);
    step(4);
  }
}

TEST(BatchDecoder, FeaturesOfPackedPromptsAreThoseOfEachAlone) {
  const ModelConfig config = test_configs()[5];
  const auto model = std::make_shared<const LanguageModel>(random_model(config));
  const BatchDecoder decoder(model);
  const std::vector<int64_t> a = some_tokens(config, 9, 0), b = some_tokens(config, 4, 3);
  ModelState together_a, together_b, alone_a, alone_b;
  const auto both = decoder.take_in(std::vector<PromptPiece>{{a, &together_a}, {b, &together_b}});
  const auto first = decoder.take_in(std::vector<PromptPiece>{{a, &alone_a}});
  const auto second = decoder.take_in(std::vector<PromptPiece>{{b, &alone_b}});
  EXPECT_LT(distance(both[0], first[0]), kRounding);
  EXPECT_LT(distance(both[1], second[0]), kRounding);
}

TEST(BatchDecoder, AStateTakenOutGoesOnAlone) {
  const ModelConfig config = test_configs()[7];
  const auto model = std::make_shared<const LanguageModel>(random_model(config));
  BatchDecoder decoder(model), other(model);
  std::vector<ModelState> states(2);
  const std::vector<int64_t> a = some_tokens(config, 5, 0), b = some_tokens(config, 6, 1);
  decoder.take_in(std::vector<PromptPiece>{{a, &states[0]}, {b, &states[1]}});
  decoder.join(states);
  const ModelState taken = decoder.state(1);
  const at::Tensor want = decoder.step(std::vector<int64_t>{1, 2})[1];
  other.join(std::vector<ModelState>{taken});
  EXPECT_LT(distance(other.step(std::vector<int64_t>{2})[0], want), kRounding);
}

TEST(BatchDecoder, WantsATokenForEachRow) {
  BatchDecoder decoder(std::make_shared<const LanguageModel>(random_model(test_configs()[0])));
  EXPECT_THROW(decoder.step(std::vector<int64_t>{1}), c10::ValueError);
}

/// A state that is recognised by its one number.
ModelState state_of(float number) {
  ModelState state;
  state.layers.push_back({{"recurrent", at::full({1, 16}, number)}});
  return state;
}

float number_in(const PrefixCache::Snapshot& snapshot) {
  return snapshot.state.layers[0].at("recurrent")[0][0].item<float>();
}

TEST(PrefixCache, FindsTheLongestBeginning) {
  PrefixCache cache(1 << 20);
  const at::Tensor features = at::ones({4});
  const std::vector<int64_t> tokens = {3, 1, 4, 1, 5, 9};
  PrefixCache::Snapshot found;
  EXPECT_EQ(cache.find(tokens, found), 0u);
  cache.keep(std::span(tokens).first(2), state_of(2), features);
  cache.keep(std::span(tokens).first(4), state_of(4), features);
  EXPECT_EQ(cache.find(tokens, found), 4u);
  EXPECT_EQ(number_in(found), 4);
  EXPECT_EQ(cache.find(std::span(tokens).first(3), found), 2u);
  EXPECT_EQ(number_in(found), 2);
  EXPECT_EQ(cache.find(std::span(tokens).first(1), found), 0u);
  EXPECT_EQ(cache.find(std::vector<int64_t>{3, 2, 4}, found), 0u);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(PrefixCache, ForgetsWhatWasNotUsedForTheLongestTime) {
  const at::Tensor features = at::ones({4});
  PrefixCache measure(1 << 20);
  measure.keep(std::vector<int64_t>{1}, state_of(1), features);
  PrefixCache cache(3 * measure.bytes());
  for (const int64_t token : {1, 2, 3})
    cache.keep(std::vector<int64_t>{token}, state_of(static_cast<float>(token)), features);
  PrefixCache::Snapshot found;
  EXPECT_EQ(cache.find(std::vector<int64_t>{1}, found), 1u);  // used: 2 is the oldest now
  cache.keep(std::vector<int64_t>{4}, state_of(4), features);
  EXPECT_EQ(cache.find(std::vector<int64_t>{2}, found), 0u);
  for (const int64_t token : {1, 3, 4})
    EXPECT_EQ(cache.find(std::vector<int64_t>{token}, found), 1u) << token;
  EXPECT_LE(cache.bytes(), 3 * measure.bytes());
  cache.keep(std::vector<int64_t>{4}, state_of(5), features);  // there already
  EXPECT_EQ(cache.size(), 3u);
}

TEST(PrefixCache, OfNoBytesKeepsNothing) {
  PrefixCache cache(0);
  cache.keep(std::vector<int64_t>{1}, state_of(1), at::ones({4}));
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
}

}  // namespace
}  // namespace dp
