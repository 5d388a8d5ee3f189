// parse_sentencepiece_tokenizer, then text: encoded and decoded.
#include <algorithm>

#include "base/error.h"
#include "text/sentencepiece_model.h"
#include "text/sentencepiece_tokenizer.h"
#include "target.h"

namespace {

bool changes_text(const dp::SentencePieceModel& model) {
  const dp::SentencePieceNormalizer& normalizer = model.normalizer;
  return !model.byte_fallback || !normalizer.character_map.empty() || normalizer.add_dummy_prefix ||
         normalizer.remove_extra_whitespaces || !normalizer.escape_whitespaces ||
         std::ranges::any_of(model.pieces, [](const dp::SentencePiece& piece) {
           return piece.type == dp::PieceType::kUserDefined;
         });
}

}  // namespace

DP_FUZZ_TARGET(sentencepiece_model, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  const std::string content(reinterpret_cast<const char*>(data), size);
  std::unique_ptr<dp::Tokenizer> tokenizer;
  bool changes = false;
  try {
    changes = changes_text(dp::parse_sentencepiece_model(content, "f"));
    tokenizer = dp::parse_sentencepiece_tokenizer(content, "f");
  } catch (const dp::InputError&) {
    return 0;
  }
  const std::string_view end = std::string_view(content).substr(size - std::min<size_t>(size, 500));
  for (const std::string_view text :
       {end, std::string_view(" It's 12  caf\xc3\xa9\n\xff \xe2\x96\x81 \xef\xac\x81 <s>")}) {
    for (const auto& tokens : {tokenizer->encode(text), tokenizer->encode_with_special(text)}) {
      for (const int32_t token : tokens)
        require(token >= 0 && token < tokenizer->vocab_size(), "tokens are in the vocabulary");
      dp::TextStream stream(*tokenizer);
      std::string streamed;
      for (const int32_t token : tokens) streamed += stream.feed(token);
      const std::string decoded = tokenizer->decode(tokens);
      require(streamed + stream.finish() == decoded, "a stream adds up to the whole");
      require(changes || decoded == text, "text comes back");
    }
  }
  return 0;
}
