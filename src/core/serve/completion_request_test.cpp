#include "serve/completion_request.h"

#include <gtest/gtest.h>

namespace dp::serve {
namespace {

using Tokens = std::vector<int64_t>;

CompletionRequest parse(const std::string& body) { return parse_completion_request(body, {}); }

RequestError refusal(const std::string& body, const RequestLimits& limits = {}) {
  try {
    parse_completion_request(body, limits);
  } catch (const RequestError& error) {
    return error;
  }
  ADD_FAILURE() << body << " was taken";
  return {"", ""};
}

TEST(CompletionRequest, HasOpenAisDefaults) {
  const CompletionRequest request = parse("{}");
  EXPECT_EQ(request.prompts, std::vector<PromptText>{std::string()});
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.temperature, 1);
  EXPECT_EQ(request.top_p, 1);
  EXPECT_FALSE(request.stream || request.echo || request.logprobs || request.seed);
  EXPECT_TRUE(request.stop.empty());
}

TEST(CompletionRequest, TakesPromptsInFourForms) {
  EXPECT_EQ(parse(R"({"prompt": "a"})").prompts, std::vector<PromptText>{std::string("a")});
  EXPECT_EQ(parse(R"({"prompt": ["a", "b"]})").prompts,
            (std::vector<PromptText>{std::string("a"), std::string("b")}));
  EXPECT_EQ(parse(R"({"prompt": [1, 2]})").prompts, (std::vector<PromptText>{Tokens{1, 2}}));
  EXPECT_EQ(parse(R"({"prompt": [[1], [2, 3]]})").prompts,
            (std::vector<PromptText>{Tokens{1}, Tokens{2, 3}}));
}

TEST(CompletionRequest, TakesEveryField) {
  const CompletionRequest request = parse(
      R"({"model": "x", "prompt": "p", "max_tokens": 0, "n": 3, "best_of": 3, "temperature": 0.5, "top_p": 0.9,
          "stream": true, "stream_options": {"include_usage": true}, "echo": true, "logprobs": 5,
          "stop": ["a", "", "b"], "seed": -1, "user": "u", "suffix": null, "presence_penalty": -1,
          "frequency_penalty": 0.5, "logit_bias": {"7": -100, "11": 2.5}})");
  EXPECT_EQ(request.model, "x");
  EXPECT_EQ(request.presence_penalty, -1);
  EXPECT_EQ(request.frequency_penalty, 0.5);
  EXPECT_EQ(request.logit_bias, (std::vector<std::pair<int64_t, double>>{{11, 2.5}, {7, -100}}));
  EXPECT_EQ(request.max_tokens, 0);
  EXPECT_EQ(request.n, 3);
  EXPECT_EQ(request.temperature, 0.5);
  EXPECT_EQ(request.top_p, 0.9);
  EXPECT_TRUE(request.stream && request.include_usage && request.echo);
  EXPECT_EQ(request.logprobs, 5);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.seed, ~uint64_t{0});
  EXPECT_EQ(parse(R"({"stop": "x"})").stop, std::vector<std::string>{"x"});
  EXPECT_EQ(parse(R"({"top_p": 0})").temperature, 0);
  EXPECT_EQ(parse(R"({"max_tokens": null, "stop": null})").max_tokens, 16);
}

TEST(CompletionRequest, NamesTheFieldAtFault) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"prompt": 1})", "prompt"},
      {R"({"prompt": []})", "prompt"},
      {R"({"prompt": [1, "a"]})", "prompt"},
      {R"({"prompt": ["a", 1]})", "prompt"},
      {R"({"prompt": ["a", [1]]})", "prompt"},
      {R"({"prompt": [[[1]]]})", "prompt"},
      {R"({"prompt": [1.5]})", "prompt"},
      {R"({"prompt": [99999999999999999999]})", "prompt"},
      {R"({"max_tokens": "5"})", "max_tokens"},
      {R"({"max_tokens": -1})", "max_tokens"},
      {R"({"max_tokens": 1.0})", "max_tokens"},
      {R"({"max_tokens": 18446744073709551615})", "max_tokens"},
      {R"({"n": 0})", "n"},
      {R"({"n": 60, "prompt": ["a", "b"]})", "n"},
      {R"({"best_of": 2})", "best_of"},
      {R"({"temperature": -0.1})", "temperature"},
      {R"({"temperature": "hot"})", "temperature"},
      {R"({"temperature": 1e999})", ""},  // no JSON number here
      {R"({"top_p": 1.1})", "top_p"},
      {R"({"stream": 1})", "stream"},
      {R"({"echo": "yes"})", "echo"},
      {R"({"logprobs": true})", "logprobs"},
      {R"({"logprobs": 21})", "logprobs"},
      {R"({"stop": 1})", "stop"},
      {R"({"stop": ["a", 1]})", "stop"},
      {R"({"seed": 0.5})", "seed"},
      {R"({"model": 7})", "model"},
      {R"({"unknown": {"x": [1]}})", "unknown"},
      {R"({"max_completion_tokens": 5})", "max_completion_tokens"},
      {R"({"suffix": "x"})", "suffix"},
      {R"({"suffix": 1})", "suffix"},
      {R"({"user": 1})", "user"},
      {R"({"presence_penalty": 2.1})", "presence_penalty"},
      {R"({"frequency_penalty": "x"})", "frequency_penalty"},
      {R"({"logit_bias": [1]})", "logit_bias"},
      {R"({"logit_bias": {"a": 1}})", "logit_bias"},
      {R"({"logit_bias": {"-1": 1}})", "logit_bias"},
      {R"({"logit_bias": {"1 ": 1}})", "logit_bias"},
      {R"({"logit_bias": {"1": 101}})", "logit_bias"},
      {R"({"logit_bias": {"1": "x"}})", "logit_bias"},
      {R"({"stream_options": {"x": 1}})", "stream_options"},
      {R"({"stream_options": true})", "stream_options"},
      {R"({"x_effective_rank": -1})", "x_effective_rank"},
      {R"([])", ""},
      {R"({"prompt": "a", "prompt": "b"})", ""},
      {R"({"prompt": "a)", ""},
      {"", ""},
      {"\xff", ""},
  };
  for (const auto& [body, field] : wrong) {
    const RequestError error = refusal(body);
    EXPECT_EQ(error.param, field) << body << ": " << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

TEST(CompletionRequest, KeepsToTheLimits) {
  const RequestLimits limits{.max_tokens = 10, .choices = 2, .prompt_tokens = 3};
  EXPECT_EQ(refusal(R"({"max_tokens": 11})", limits).param, "max_tokens");
  EXPECT_EQ(refusal(R"({"prompt": ["a", "b", "c"]})", limits).param, "prompt");
  const RequestError error = refusal(R"({"prompt": [1, 2, 3, 4]})", limits);
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_NE(std::string(error.what()).find("4 tokens, expected at most 3"), std::string::npos);
}

TEST(CompletionRequest, KnowsHowLongTheAnswerMayBe) {
  const auto bytes = [](const char* body) { return answer_bytes(parse(body), 32768); };
  EXPECT_LT(bytes("{}"), 1000);
  EXPECT_LT(bytes(R"({"max_tokens": 4096, "n": 64})"), RequestLimits().answer_bytes);
  EXPECT_LT(bytes(R"({"max_tokens": 0, "n": 1, "logprobs": 20, "echo": true})"),
            RequestLimits().answer_bytes);
  EXPECT_GT(bytes(R"({"max_tokens": 0, "n": 64, "logprobs": 20, "echo": true})"),
            RequestLimits().answer_bytes);
}

}  // namespace
}  // namespace dp::serve
