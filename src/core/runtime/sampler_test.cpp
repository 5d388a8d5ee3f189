#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"

namespace dp {
namespace {

const std::vector<float> kLogits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};

std::map<int64_t, int> histogram(const SamplingOptions& options, int draws,
                                 const std::vector<float>& logits = kLogits) {
  Sampler sampler(options);
  std::map<int64_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[sampler.sample(logits)];
  return counts;
}

TEST(Sampler, GreedyTakesTheMostLikely) {
  EXPECT_EQ(histogram({}, 10), (std::map<int64_t, int>{{1, 10}}));
}

TEST(Sampler, FollowsTheProbabilities) {
  SamplingOptions options;
  options.temperature = 1;
  const auto counts = histogram(options, 20000);
  EXPECT_NEAR(counts.at(0), 2000, 200);
  EXPECT_NEAR(counts.at(1), 8000, 300);
  EXPECT_NEAR(counts.at(2), 4000, 300);
  EXPECT_NEAR(counts.at(3), 6000, 300);
}

TEST(Sampler, TemperatureSharpens) {
  SamplingOptions options;
  options.temperature = 0.5;  // probabilities proportional to the squares: 1, 16, 4, 9 of 30
  EXPECT_NEAR(histogram(options, 30000).at(1), 16000, 500);
}

TEST(Sampler, TopKAndTopPLeaveTheRestOut) {
  SamplingOptions options;
  options.temperature = 1;
  options.top_k = 2;
  auto counts = histogram(options, 7000);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_NEAR(counts.at(1), 4000, 200);
  EXPECT_NEAR(counts.at(3), 3000, 200);
  options.top_k = 0;
  options.top_p = 0.71;  // 0.4 + 0.3 is not enough, the third is the last
  counts = histogram(options, 9000);
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_NEAR(counts.at(2), 2000, 200);
  options.top_p = 0.2;  // the most likely one always stays
  EXPECT_EQ(histogram(options, 10), (std::map<int64_t, int>{{1, 10}}));
}

TEST(Sampler, RepetitionPenaltyAppliesToPromptAndSamples) {
  SamplingOptions options;
  options.repetition_penalty = 10;
  Sampler sampler(options);
  const std::vector<float> logits = {2, 1.5, -0.1f, 0.5};
  const int64_t prompt[] = {0};
  sampler.note(prompt);
  EXPECT_EQ(sampler.sample(logits), 1);  // 0 is down to 0.2
  EXPECT_EQ(sampler.sample(logits), 3);  // 1 is down to 0.15
  EXPECT_EQ(sampler.sample(logits), 0);  // 3 is down to 0.05
}

TEST(Sampler, SameSeedSameTokens) {
  SamplingOptions options;
  options.temperature = 1;
  options.seed = 5;
  Sampler a(options), b(options);
  options.seed = 6;
  Sampler c(options);
  int differences = 0;
  for (int i = 0; i < 100; ++i) {
    const int64_t token = a.sample(kLogits);
    EXPECT_EQ(token, b.sample(kLogits));
    differences += token != c.sample(kLogits);
  }
  EXPECT_GT(differences, 20);
}

TEST(Sampler, NeverChoosesWhatIsNotANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  SamplingOptions options;
  options.temperature = 1;
  EXPECT_EQ(histogram(options, 100, {nan, -infinity, 1}).at(2), 100);
  EXPECT_EQ(histogram(options, 100, {1, infinity, 1}).at(1), 100);
  EXPECT_THROW(histogram(options, 1, {nan, nan}), std::runtime_error);
}

TEST(Sampler, RefusesOptionsOutOfRange) {
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = -1}, SamplingOptions{.top_k = -1},
        SamplingOptions{.top_p = 0}, SamplingOptions{.top_p = 1.5},
        SamplingOptions{.repetition_penalty = 0},
        SamplingOptions{.temperature = std::numeric_limits<double>::quiet_NaN()}})
    EXPECT_THROW(check_sampling(options), InputError);
}

TEST(Sampler, PenalisesWhatWasSampledButNotThePrompt) {
  SamplingOptions options;
  options.presence_penalty = 2;  // more than any two logits differ
  Sampler once(options);
  once.note(std::vector<int64_t>{1, 3});
  std::vector<int64_t> tokens;
  for (int i = 0; i < 5; ++i) tokens.push_back(once.sample(kLogits));
  EXPECT_EQ(tokens,
            (std::vector<int64_t>{1, 3, 2, 0, 1}));  // once all have it, it makes no difference
  options.presence_penalty = 0, options.frequency_penalty = 0.5;
  Sampler often(options);
  tokens.clear();
  // Logits -0.92, -1.20, -1.61, -2.30 of 1, 3, 2, 0; each choice costs 0.5.
  for (int i = 0; i < 6; ++i) tokens.push_back(often.sample(kLogits));
  EXPECT_EQ(tokens, (std::vector<int64_t>{1, 3, 1, 2, 3, 1}));
}

TEST(Sampler, AddsBiases) {
  SamplingOptions options;
  options.logit_bias = {{0, 100}, {7, 100}};  // one is of no token
  EXPECT_EQ(histogram(options, 10), (std::map<int64_t, int>{{0, 10}}));
  options.temperature = 1;
  options.logit_bias = {{1, -100}, {2, std::log(3.0)}};
  const auto counts = histogram(options, 20000);  // 0.1, 0, 0.6, 0.3
  EXPECT_EQ(counts.count(1), 0u);
  EXPECT_NEAR(counts.at(2), 12000, 300);
}

}  // namespace
}  // namespace dp
