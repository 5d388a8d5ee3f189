#include "serve/completion_request.h"

#include <limits>

#include "base/quote.h"
#include "serve/request_fields.h"

namespace dp::serve {
namespace {

using nlohmann::json;

PromptText token_list(const json& list, int64_t most) {
  if (static_cast<int64_t>(list.size()) > most)
    throw RequestError("the prompt has " + std::to_string(list.size()) +
                           " tokens, expected at most " + std::to_string(most),
                       "prompt", "context_length_exceeded");
  std::vector<int64_t> tokens;
  for (const json& token : list) {
    if (!token.is_number_integer() ||
        (token.is_number_unsigned() && token.get<uint64_t>() > std::numeric_limits<int32_t>::max()))
      throw wrong_field(
          "prompt", "a list with " + (token.is_number() ? quote(token.dump()) : json_kind(token)),
          "token numbers");
    tokens.push_back(token.get<int64_t>());
  }
  return tokens;
}

std::vector<PromptText> parse_prompts(const json& value, const RequestLimits& limits) {
  if (value.is_string()) return {value.get<std::string>()};
  constexpr const char* kExpected =
      "a string, a list of strings, a list of token numbers or a list of such lists";
  if (!value.is_array()) throw wrong_field("prompt", json_kind(value), kExpected);
  if (value.empty()) throw wrong_field("prompt", "an empty list", kExpected);
  if (value.front().is_number()) return {token_list(value, limits.prompt_tokens)};
  if (static_cast<int64_t>(value.size()) > limits.choices)
    throw wrong_field("prompt", "a list of " + std::to_string(value.size()),
                      "at most " + std::to_string(limits.choices) + " prompts");
  std::vector<PromptText> prompts;
  for (const json& item : value) {
    if (item.type() != value.front().type() || !(item.is_string() || item.is_array()))
      throw wrong_field("prompt", "a list with " + json_kind(item), kExpected);
    if (item.is_string())
      prompts.emplace_back(item.get<std::string>());
    else
      prompts.push_back(token_list(item, limits.prompt_tokens));
  }
  return prompts;
}

}  // namespace

CompletionRequest parse_completion_request(std::string_view body, const RequestLimits& limits) {
  const RequestReader reader(body, completion_fields(limits));
  CompletionRequest request;
  read_common_fields(reader, request);
  if (const json* prompt = reader.find("prompt")) request.prompts = parse_prompts(*prompt, limits);
  const int64_t choices = request.n * static_cast<int64_t>(request.prompts.size());
  if (choices > limits.choices)
    throw wrong_field("n",
                      std::to_string(request.n) + " for each of " +
                          std::to_string(request.prompts.size()) + " prompts",
                      "at most " + std::to_string(limits.choices) + " choices in all");
  if (const auto best_of = reader.integer("best_of"); best_of && *best_of != request.n)
    throw wrong_field("best_of", std::to_string(*best_of),
                      "the same as n: nothing is left out here");
  request.echo = reader.boolean("echo");
  request.logprobs = reader.integer("logprobs");
  return request;
}

int64_t answer_bytes(const CompletionRequest& request, int64_t prompt_tokens) {
  constexpr int64_t kText = 16, kLogprob = 64, kAlternative = 48;  // of a token, as JSON
  constexpr int64_t kChatAlternative = 80;                         // which names its fields
  const int64_t tokens = request.max_tokens + (request.echo ? prompt_tokens : 0);
  const int64_t alternative = request.chat ? kChatAlternative : kAlternative;
  const int64_t per_token =
      kText + (request.logprobs ? kLogprob + alternative * (*request.logprobs + 1) : 0);
  return request.n * tokens * per_token;
}

}  // namespace dp::serve
