// One continuation on its way from tokens to text.
#pragma once
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "serve/stop_text.h"
#include "text/tokenizer.h"

namespace dp::serve {

/// A token as logprobs show it.
struct TokenText {
  std::string text;
  int64_t offset = 0;  // characters before it, in the choice's text
  double logprob = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::pair<std::string, double>> top;
};

/// Text that may be shown and the tokens that made it.
struct TextPiece {
  std::string text;
  std::vector<TokenText> tokens;
};

/// Bytes that are not UTF-8 as OpenAI has them: "bytes:\xe2\x80".
std::string printable(const std::string& bytes);

/// The text of one token as it is after another: SentencePiece drops the space before a first word.
class TokenNames {
 public:
  explicit TokenNames(const Tokenizer& tokenizer);
  std::string operator()(int64_t token) const;

 private:
  const Tokenizer& tokenizer_;
  std::vector<int32_t> before_;
  std::string before_text_;
};

/// Tokens wait together with their text: while a character is incomplete or could begin a stop string. What is cut
/// off by a stop string is never seen.
class ChoiceText {
 public:
  ChoiceText(const Tokenizer& tokenizer, std::vector<std::string> stops)
      : stream_(tokenizer), stop_(std::move(stops)) {}

  /// `token` is what logprobs show; its offset is filled in.
  TextPiece feed(int64_t id, TokenText token);
  /// A token without text, which ends the choice.
  TextPiece feed_end(TokenText token);
  TextPiece finish();
  bool stopped() const { return stop_.found(); }
  /// Of text that came before what is fed: an echoed prompt.
  void skip(int64_t characters) { made_ = shown_ = characters; }

 private:
  TextPiece show(std::string text, bool all);

  TextStream stream_;
  StopText stop_;
  int64_t made_ = 0, shown_ = 0;  // characters
  std::vector<TokenText> waiting_;
};

int64_t count_characters(std::string_view utf8);

}  // namespace dp::serve
