// Tokenizers in SentencePiece's format, BPE and unigram: ours, and those of Llama, Mistral, Gemma or T5.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace dp {

/// `content` is a .model file. Throws InputError that names `file`. Tokens are those of the library, but for bytes that
/// are not UTF-8: a model with byte pieces keeps them. Of models that change no text (train_sentencepiece's),
/// decode(encode(x)) is x for all bytes x; there the character that SentencePiece puts in place of spaces, U+2581,
/// becomes bytes too.
std::unique_ptr<Tokenizer> parse_sentencepiece_tokenizer(std::string content,
                                                         const std::string& file);

}  // namespace dp
