// Which tokens begin and end a text.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "io/model_config.h"
#include "text/tokenizer.h"

namespace dp::runtime {

/// What a text prompt begins with: the tokenizer's bos if that is wanted; if the text is empty, else what stands between
/// documents, its eos, because there must be something to go on from.
std::optional<int32_t> first_token(const Tokenizer& tokenizer, bool bos, bool empty);

/// Tokens that end a text: the model's and the tokenizer's.
std::vector<int64_t> end_tokens(const ModelConfig& config, const Tokenizer& tokenizer);

}  // namespace dp::runtime
