// For tests: a tokenizer whose every choice shows.
#pragma once
#include <stdexcept>
#include <string>

#include "text/tokenizer.h"

namespace dp {

/// A byte b is token b+1, the pair "th" is the last token; 0 ends a text.
class TestTokenizer final : public Tokenizer {
 public:
  explicit TestTokenizer(int64_t vocab_size = 300, bool has_eos = true)
      : vocab_size_(vocab_size),
        has_eos_(has_eos),
        content_("test " + std::to_string(vocab_size)) {}

  int64_t vocab_size() const override { return vocab_size_; }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool pair = text.substr(i).starts_with("th");
      tokens.push_back(pair ? pair_token() : 1 + static_cast<uint8_t>(text[i]));
      i += pair;
    }
    return tokens;
  }
  std::vector<int32_t> encode_with_special(std::string_view text) const override {
    return encode(text);
  }
  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= vocab_size_) throw std::out_of_range("token");
      if (token == pair_token())
        text += "th";
      else if (token > 0)
        text += static_cast<char>(token - 1);
    }
    return text;
  }
  bool is_special(int32_t token) const override { return token == 0; }
  std::optional<int32_t> bos() const override { return {}; }
  std::optional<int32_t> eos() const override {
    return has_eos_ ? std::optional<int32_t>(0) : std::nullopt;
  }
  std::string kind() const override { return "test"; }
  const std::string& file_name() const override { return name_; }
  const std::string& file_content() const override { return content_; }

 private:
  int32_t pair_token() const { return static_cast<int32_t>(vocab_size_ - 1); }

  int64_t vocab_size_;
  bool has_eos_;
  std::string name_ = "tokenizer.test", content_;
};

}  // namespace dp
