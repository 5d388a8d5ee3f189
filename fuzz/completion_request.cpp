// parse_completion_request.
#include "serve/completion_request.h"

#include <cmath>

#include "base/error.h"
#include "target.h"

DP_FUZZ_TARGET(completion_request, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  const dp::serve::RequestLimits limits{.max_tokens = 100, .choices = 8, .prompt_tokens = 50};
  dp::serve::CompletionRequest request;
  try {
    request =
        dp::serve::parse_completion_request({reinterpret_cast<const char*>(data), size}, limits);
  } catch (const dp::serve::RequestError& error) {
    require(error.what()[0] != '\0', "a refusal says why");
    return 0;
  }
  require(!request.prompts.empty() && request.n >= 1 &&
              request.n * static_cast<int64_t>(request.prompts.size()) <= limits.choices,
          "there are some choices, but not too many");
  for (const dp::serve::PromptText& prompt : request.prompts)
    if (const auto* tokens = std::get_if<std::vector<int64_t>>(&prompt))
      require(static_cast<int64_t>(tokens->size()) <= limits.prompt_tokens,
              "prompts are not too long");
  require(request.max_tokens >= 0 && request.max_tokens <= limits.max_tokens,
          "a bounded number of tokens");
  require(request.temperature >= 0 && std::isfinite(request.temperature) && request.top_p > 0 &&
              request.top_p <= 1,
          "what sampling needs");
  for (const std::string& stop : request.stop) require(!stop.empty(), "stop strings are not empty");
  return 0;
}
