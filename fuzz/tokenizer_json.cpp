// parse_bpe_tokenizer, then the same bytes and others as text: encoded and decoded.
#include <algorithm>

#include "base/error.h"
#include "text/bpe_file.h"
#include "text/bpe_tokenizer.h"
#include "target.h"

namespace {

bool changes_text(const dp::BpeFile& file) {
  return file.nfc || file.add_prefix_space ||
         std::ranges::any_of(file.splits, [](const dp::WordSplit& split) {
           return !split.keep_matches || !split.keep_others;
         });
}

}  // namespace

DP_FUZZ_TARGET(tokenizer_json, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  const std::string content(reinterpret_cast<const char*>(data), size);
  try {
    const bool changes = changes_text(dp::parse_bpe_file(content, "f"));
    const auto tokenizer = dp::parse_bpe_tokenizer(content, "f");
    const std::string_view end =
        std::string_view(content).substr(size - std::min<size_t>(size, 500));
    for (const std::string_view text :
         {end, std::string_view("It's 12  caf\xc3\xa9\n\xff \xe4\xb8\xad! <x>")}) {
      for (const auto& tokens : {tokenizer->encode(text), tokenizer->encode_with_special(text)}) {
        for (const int32_t token : tokens)
          require(token >= 0 && token < tokenizer->vocab_size(), "tokens are in the vocabulary");
        const std::string decoded = tokenizer->decode(tokens);
        require(changes || decoded == text, "text comes back");
      }
    }
    for (const auto token : {tokenizer->bos(), tokenizer->eos()})
      require(!token || (*token >= 0 && *token < tokenizer->vocab_size()), "ends are tokens");
    require(tokenizer->file_content() == content, "the file is kept");
  } catch (const dp::InputError&) {
    return 0;
  }
  return 0;
}
