// Bytes as tokens.
#include <stdexcept>

#include "text/tokenizer.h"

namespace dp {
namespace {

constexpr int32_t kByteTokens = 256, kBeginToken = 256, kEndToken = 257;
constexpr std::string_view kBeginName = "<s>", kEndName = "</s>";

class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocab_size() const override { return kEndToken + 1; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens(text.size());
    for (size_t i = 0; i < text.size(); ++i) tokens[i] = static_cast<uint8_t>(text[i]);
    return tokens;
  }

  std::vector<int32_t> encode_with_special(std::string_view text) const override {
    std::vector<int32_t> tokens;
    while (!text.empty()) {
      const bool begins = text.starts_with(kBeginName), ends = text.starts_with(kEndName);
      tokens.push_back(begins ? kBeginToken : ends ? kEndToken : static_cast<uint8_t>(text[0]));
      text.remove_prefix(begins ? kBeginName.size() : ends ? kEndName.size() : 1);
    }
    return tokens;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token < 0 || token > kEndToken)
        throw std::out_of_range("token " + std::to_string(token) +
                                " is outside of the vocabulary of 258");
      if (token < kByteTokens)
        text += static_cast<char>(token);
      else
        text += token == kBeginToken ? kBeginName : kEndName;
    }
    return text;
  }

  bool is_special(int32_t token) const override {
    return token == kBeginToken || token == kEndToken;
  }
  std::optional<int32_t> bos() const override { return kBeginToken; }
  std::optional<int32_t> eos() const override { return kEndToken; }
  std::string kind() const override { return "bytes"; }
  const std::string& file_name() const override { return nothing_; }
  const std::string& file_content() const override { return nothing_; }

 private:
  const std::string nothing_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace dp
