// A continuation, token by token.
#pragma once
#include <functional>
#include <vector>

#include "runtime/sampler.h"
#include "runtime/session.h"

namespace dp::runtime {

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 32;
  std::vector<int64_t> stop_tokens;  // end the continuation, and are not part of it
  /// Called with each token as it is chosen; false stops.
  std::function<bool(int64_t)> on_token;
};

/// Feeds `prompt` (which may be empty if the session has seen a token) and continues it. Afterwards the session has
/// seen the prompt and every token returned.
std::vector<int64_t> generate(Session& session, std::span<const int64_t> prompt,
                              const GenerateOptions& options);

}  // namespace dp::runtime
