#include "runtime/generate.h"

#include <algorithm>

#include "base/error.h"

namespace dp::runtime {

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
