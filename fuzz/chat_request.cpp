// parse_chat_request.
#include "serve/chat_request.h"

#include <cmath>

#include "target.h"

DP_FUZZ_TARGET(chat_request, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  const dp::serve::RequestLimits limits{.max_tokens = 100, .choices = 8, .prompt_tokens = 50};
  dp::serve::ChatRequest request;
  try {
    request = dp::serve::parse_chat_request({reinterpret_cast<const char*>(data), size}, limits);
  } catch (const dp::serve::RequestError& error) {
    require(error.what()[0] != '\0', "a refusal says why");
    require(std::string_view(error.what()).size() <= 1000 &&
                std::string_view(error.what()).find('\n') == std::string_view::npos,
            "in one line");
    return 0;
  }
  require(!request.messages.empty(), "there are messages");
  const dp::serve::CompletionRequest& completion = request.completion;
  require(completion.chat && completion.n >= 1 && completion.n <= limits.choices,
          "there are some choices, but not too many");
  require(completion.max_tokens >= 0 && completion.max_tokens <= limits.max_tokens,
          "a bounded number of tokens");
  require(completion.temperature >= 0 && std::isfinite(completion.temperature) &&
              completion.top_p > 0 && completion.top_p <= 1,
          "what sampling needs");
  require(!completion.logprobs || (*completion.logprobs >= 0 && *completion.logprobs <= 20),
          "a bounded number of alternatives");
  for (const std::string& stop : completion.stop)
    require(!stop.empty(), "stop strings are not empty");
  return 0;
}
