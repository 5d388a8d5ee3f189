// Tokenizers of the GPT-2 family: text becomes words by regular expressions, words become bytes, pairs of which are
// merged in the order of a list. Llama 3, Qwen 2, OLMo, DeepSeek and StarCoder have them too.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace dp {

/// `content` is a Hugging Face tokenizer.json. Throws InputError, naming `file` and the field, for what is malformed and
/// for what is not understood. Unless the file itself changes text (a prefix space, pieces removed, normal forms),
/// decode(encode(x)) is x for all bytes x; those that are not UTF-8 become one token each.
std::unique_ptr<Tokenizer> parse_bpe_tokenizer(std::string content, const std::string& file);

}  // namespace dp
