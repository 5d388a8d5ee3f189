#include "serve/choice_text.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace dp::serve {

int64_t count_characters(std::string_view utf8) {
  return static_cast<int64_t>(utf8_count(utf8));
}

std::string printable(const std::string& bytes) {
  try {
    nlohmann::json(bytes).dump();  // strict: throws unless this is UTF-8
    return bytes;
  } catch (const nlohmann::json::exception&) {
  }
  std::string text = "bytes:";
  for (const char byte : bytes) {
    char hex[5];
    std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(byte));
    text += hex;
  }
  return text;
}

TokenNames::TokenNames(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  if (const std::vector<int32_t> a = tokenizer.encode("a"); !a.empty()) before_ = {a.back()};
  before_text_ = tokenizer.decode(before_);
}

std::string TokenNames::operator()(int64_t token) const {
  if (token < 0 || token >= tokenizer_.vocab_size())
    return "token:" + std::to_string(token);  // a vocabulary is often rounded up in a model
  std::vector<int32_t> both = before_;
  both.push_back(static_cast<int32_t>(token));
  const std::string text = tokenizer_.decode(both);
  if (text.starts_with(before_text_)) return printable(text.substr(before_text_.size()));
  return printable(tokenizer_.decode(std::span(both).last(1)));
}

TextPiece ChoiceText::feed(int64_t id, TokenText token) {
  token.offset = made_;
  waiting_.push_back(std::move(token));
  const std::string text = stream_.feed(static_cast<int32_t>(id));
  made_ += count_characters(text);
  return show(stop_.feed(text), false);
}

TextPiece ChoiceText::feed_end(TokenText token) {
  token.offset = made_;
  waiting_.push_back(std::move(token));
  return {};
}

TextPiece ChoiceText::finish() {
  std::string text;
  if (!stopped()) {
    text = stop_.feed(stream_.finish());
    if (!stopped()) text += stop_.finish();
  }
  return show(std::move(text), !stopped());
}

// A token is shown once its first character is.
TextPiece ChoiceText::show(std::string text, bool all) {
  shown_ += count_characters(text);
  const auto hidden = std::ranges::find_if(
      waiting_, [&](const TokenText& token) { return !all && token.offset >= shown_; });
  TextPiece piece{std::move(text),
                  {std::make_move_iterator(waiting_.begin()), std::make_move_iterator(hidden)}};
  waiting_.erase(waiting_.begin(), hidden);
  return piece;
}

}  // namespace dp::serve
