// A continuation, token by token.
#pragma once
#include <vector>

#include "infer/session.h"
#include "runtime/generate.h"

namespace dp {

using runtime::GenerateOptions;

/// Feeds `prompt` (which may be empty if the session has seen a token) and continues it. Afterwards the
/// session has seen the prompt and every token returned.
std::vector<int64_t> generate(Session& session, std::span<const int64_t> prompt,
                              const GenerateOptions& options);

}  // namespace dp
