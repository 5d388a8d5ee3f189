// Log-probabilities of tokens.
#pragma once
#include <span>

#include "serve/engine.h"

namespace dp::serve {

/// `token` and the `top` most likely ones (-1: not even the token's own), from the logits of its place. Among
/// equals the lower token comes first.
ScoredToken score_token(std::span<const float> logits, int64_t token, int64_t top);

}  // namespace dp::serve
