// A continuation, token by token.
#pragma once
#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "runtime/sampler.h"

namespace dp::runtime {

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 32;
  std::vector<int64_t> stop_tokens;  // end the continuation, and are not part of it
  /// Called with each token as it is chosen; false stops.
  std::function<bool(int64_t)> on_token;
};

/// Feeds `prompt` (which may be empty if the session has seen a token) and continues it. Afterwards the session has
/// seen the prompt and every token returned. Session is the runtime's, or nn's for models that only the lab runs.
template <class Session>
std::vector<int64_t> generate(Session& session, std::span<const int64_t> prompt,
                              const GenerateOptions& options) {
  if (prompt.empty() && session.tokens_seen() == 0)
    throw InputError("the prompt has no tokens, expected at least one to continue from");
  Sampler sampler(options.sampling);
  sampler.note(prompt);
  session.feed(prompt);
  std::vector<int64_t> tokens;
  while (static_cast<int64_t>(tokens.size()) < options.max_tokens) {
    const int64_t token = sampler.sample(session.logits());
    if (std::ranges::find(options.stop_tokens, token) != options.stop_tokens.end()) break;
    tokens.push_back(token);
    const bool go_on = !options.on_token || options.on_token(token);
    session.feed(token);
    if (!go_on) break;
  }
  return tokens;
}

}  // namespace dp::runtime
