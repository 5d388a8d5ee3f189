// The body of POST /v1/completions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace dp::serve {

/// A request that cannot be answered as it is; status 400 and the field at fault.
class RequestError : public InputError {
 public:
  RequestError(const std::string& message, std::string field, std::string error_code = "")
      : InputError(message), param(std::move(field)), code(std::move(error_code)) {}
  std::string param, code;  // empty: none
};

/// What a request may ask for.
struct RequestLimits {
  int64_t max_tokens = 4096, choices = 64, prompt_tokens = 32768;
  int64_t answer_bytes = 256 << 20;
};

using PromptText = std::variant<std::string, std::vector<int64_t>>;

/// Fields as OpenAI names them, with its defaults. Others are refused.
struct CompletionRequest {
  std::optional<std::string> model;
  std::vector<PromptText> prompts = {std::string()};
  int64_t max_tokens = 16;
  int64_t n = 1;
  double temperature = 1, top_p = 1, presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::pair<int64_t, double>>
      logit_bias;  // by token, which may be outside the vocabulary
  bool stream = false, echo = false, include_usage = false;
  bool chat = false;                // answered in the form of chats
  std::optional<int64_t> logprobs;  // alternatives per token, 0 .. 20
  std::vector<std::string> stop;
  std::optional<uint64_t> seed;
  int64_t x_effective_rank = 0;  // ours: the states' ranks every so many tokens of a stream
};

/// About what the answer will take if no choice ends before max_tokens.
int64_t answer_bytes(const CompletionRequest& request, int64_t prompt_tokens);

/// Throws RequestError.
CompletionRequest parse_completion_request(std::string_view body, const RequestLimits& limits);

}  // namespace dp::serve
