#include "chat/lexer.h"

#include <algorithm>
#include <cctype>

#include "base/quote.h"
#include "base/utf8.h"
#include "chat/text_functions.h"
#include "chat/value.h"

namespace dp::chat {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

// Newlines of other systems are newlines, and the last one does not count.
std::string normal_lines(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normal_lines(source)) {}

  std::vector<Token> cut() {
    while (at_ < text_.size()) {
      const size_t tag = find_tag();
      add_text(tag);
      if (tag == text_.size()) break;
      const char kind = text_[tag + 1];
      at_ = tag + 2;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      if (kind == '#') {
        skip_comment();
      } else {
        add(kind == '{' ? Kind::kOpenPrint : Kind::kOpenBlock, "");
        cut_tag(kind == '{' ? "}}" : "%}");
      }
    }
    add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  using Kind = Token::Kind;

  [[noreturn]] void fail(const std::string& problem) const {
    throw TemplateError("line " + std::to_string(line()) + ": " + problem);
  }

  size_t line() const {
    counted_line_ += static_cast<size_t>(
        std::count(text_.begin() + static_cast<ptrdiff_t>(std::min(counted_, at_)),
                   text_.begin() + static_cast<ptrdiff_t>(std::min(at_, text_.size())), '\n'));
    counted_ = at_;
    return counted_line_;
  }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line()}); }

  size_t find_tag() const {
    for (size_t i = text_.find('{', at_); i != text_.npos; i = text_.find('{', i + 1))
      if (i + 1 < text_.size() && std::string_view("{%#").find(text_[i + 1]) != std::string::npos)
        return i;
    return text_.size();
  }

  // Text up to the tag, without the blanks that tags at its ends take away.
  void add_text(size_t tag) {
    std::string text = text_.substr(at_, tag - at_);
    const bool begins_line = at_ == 0 || text_[at_ - 1] == '\n';  // before anything is taken away
    if (strip_next_) text.erase(0, std::min(text.find_first_not_of(kBlank), text.size()));
    strip_next_ = false;
    const bool more = tag + 2 < text_.size();
    if (more && text_[tag + 2] == '-') {
      text.erase(text.find_last_not_of(kBlank) + 1);
    } else if (tag < text_.size() && text_[tag + 1] != '{' && !(more && text_[tag + 2] == '+')) {
      const size_t newline = text.rfind('\n');
      const size_t first = newline == text.npos ? 0 : newline + 1;
      if ((newline != text.npos || begins_line) &&
          text.find_first_not_of(" \t\v\f", first) == text.npos)
        text.erase(first);
    }
    if (!text.empty()) add(Kind::kText, std::move(text));
    at_ = tag;
  }

  // After the end of a tag; `sign` is the '-' or '+' before it, if any.
  void after_tag(char sign, bool block) {
    strip_next_ = sign == '-';
    if (block && sign == 0 && at_ < text_.size() && text_[at_] == '\n') ++at_;
  }

  void skip_comment() {
    const size_t end = text_.find("#}", at_);
    if (end == text_.npos) fail("a comment does not end, expected #}");
    const char before = text_[end - 1];
    const char sign = end > at_ && (before == '-' || before == '+') ? before : '\0';
    at_ = end + 2;
    after_tag(sign, true);
  }

  void cut_tag(std::string_view close) {
    size_t open = 0;  // brackets: }} may end two mappings
    for (;;) {
      at_ = std::min(text_.find_first_not_of(kBlank, at_), text_.size());
      if (at_ == text_.size()) fail("a tag does not end, expected " + std::string(close));
      const std::string_view rest = std::string_view(text_).substr(at_);
      const bool signed_end =
          (rest[0] == '-' || rest[0] == '+') && rest.substr(1).starts_with(close);
      if (signed_end || (rest.starts_with(close) && (open == 0 || close == "%}"))) {
        at_ += close.size() + signed_end;
        add(Kind::kClose, std::string(close));
        return after_tag(signed_end ? rest[0] : '\0', close == "%}");
      }
      if (rest[0] == '\'' || rest[0] == '"') {
        cut_string(rest[0]);
      } else if (is_digit(rest[0])) {
        cut_number();
      } else if (is_name(rest[0])) {
        const size_t begin = at_;
        while (at_ < text_.size() && is_name(text_[at_])) ++at_;
        add(Kind::kName, text_.substr(begin, at_ - begin));
      } else {
        cut_sign(rest, open);
      }
    }
  }

  void cut_sign(std::string_view rest, size_t& open) {
    constexpr std::string_view kPairs[] = {"==", "!=", "<=", ">=", "//", "**"};
    for (const std::string_view pair : kPairs)
      if (rest.starts_with(pair)) {
        at_ += 2;
        return add(Kind::kSign, std::string(pair));
      }
    if (std::string_view("+-*/%~<>=()[]{}.,:|").find(rest[0]) == std::string_view::npos)
      fail("found " + quote(rest.substr(0, 1)) + ", expected an expression");
    if (std::string_view("([{").find(rest[0]) != std::string_view::npos) ++open;
    if (std::string_view(")]}").find(rest[0]) != std::string_view::npos && open > 0) --open;
    ++at_;
    add(Kind::kSign, std::string(rest.substr(0, 1)));
  }

  void cut_number() {
    const size_t begin = at_;
    const auto digits = [&] {
      while (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '_')) ++at_;
    };
    digits();
    const bool fraction = at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1]);
    if (fraction) {
      ++at_;
      digits();
    }
    std::string number = text_.substr(begin, at_ - begin);
    std::erase(number, '_');
    if (number.size() > 18) fail("the number " + quote(number) + " is too long");
    add(fraction ? Kind::kFloat : Kind::kInteger, std::move(number));
  }

  void cut_string(char mark) {
    std::string out;
    for (++at_;; ++at_) {
      if (at_ >= text_.size()) fail("a string does not end");
      const char c = text_[at_];
      if (c == mark) break;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (++at_ >= text_.size()) fail("a string does not end");
      unescape(out);
    }
    ++at_;
    add(Kind::kString, std::move(out));
  }

  // The character after a backslash, as Python has it.
  void unescape(std::string& out) {
    constexpr std::string_view kFrom = "ntrbfva0\\'\"\n", kTo("\n\t\r\b\f\v\a\0\\'\"", 11);
    const char c = text_[at_];
    if (c == 'x' || c == 'u') {
      const size_t digits = c == 'x' ? 2 : 4;
      const std::string hex = text_.substr(at_ + 1, digits);
      if (hex.size() < digits || hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos)
        fail("the escape " + quote("\\" + std::string(1, c) + hex) + " is not one");
      out += utf8_encode(static_cast<char32_t>(std::stoul(hex, nullptr, 16)));
      at_ += digits;
      return;
    }
    const size_t found = kFrom.find(c);
    if (found == kFrom.npos)
      (out += '\\') += c;
    else if (found < kTo.size())
      out += kTo[found];  // a backslash before a newline joins lines
  }

  const std::string text_;
  size_t at_ = 0;
  bool strip_next_ = false;
  std::vector<Token> tokens_;
  mutable size_t counted_ = 0, counted_line_ = 1;
};

}  // namespace

std::vector<Token> cut_template(std::string_view source) { return Lexer(source).cut(); }

}  // namespace dp::chat
