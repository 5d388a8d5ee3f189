// Read by hand: std::regex tells no positions.
#include "algebra/expression_syntax.h"

#include <algorithm>

#include "base/error.h"
#include "base/quote.h"
#include "base/utf8.h"

namespace dp {
namespace {

struct Character {
  char32_t code;
  std::string_view bytes;
};

/// The character that UTF-8 text starts with; its bytes are empty if the text is not UTF-8.
Character first_character(std::string_view text) {
  const std::string_view bytes = text.substr(0, utf8_character(text));
  return {bytes.empty() ? 0 : utf8_decode(bytes), bytes};
}

std::string not_utf8(const std::string& what, size_t characters_before, std::string_view rest) {
  return what + ": expected UTF-8 at position " + std::to_string(characters_before + 1) +
         ", found the byte " + std::to_string(static_cast<unsigned char>(rest.front()));
}

/// Reads from left to right; every complaint names the position, counted in characters from 1.
class ExpressionReader {
 public:
  explicit ExpressionReader(std::string_view text) : text_(text) {
    if (text.size() > Expression::kMaxBytes)
      throw InputError("regular expression " + quote(text) + ": expected at most " +
                       std::to_string(Expression::kMaxBytes) + " bytes, found " +
                       std::to_string(text.size()));
    for (std::string_view rest = text; !rest.empty();) {
      characters_.push_back(first_character(rest));
      if (characters_.back().bytes.empty()) {
        throw InputError(not_utf8("regular expression", characters_.size() - 1, rest));
      }
      rest.remove_prefix(characters_.back().bytes.size());
    }
  }

  Expression read() {
    ExpressionNode root = read_choice(0);
    if (!at_end()) fail("the end");  // only an unmatched ')' stops a choice
    return {std::move(root), std::move(named_)};
  }

 private:
  ExpressionNode read_choice(int depth) {
    ExpressionNode choice{.kind = ExpressionNode::Kind::kChoice};
    choice.parts.push_back(read_sequence(depth));
    while (skip('|')) choice.parts.push_back(read_sequence(depth));
    return choice.parts.size() == 1 ? std::move(choice.parts.front()) : std::move(choice);
  }

  ExpressionNode read_sequence(int depth) {
    ExpressionNode sequence{.kind = ExpressionNode::Kind::kSequence};
    for (skip_spaces(); !at_end() && !is('|') && !is(')'); skip_spaces())
      sequence.parts.push_back(read_repeat(depth));
    return sequence;
  }

  ExpressionNode read_repeat(int depth) {
    ExpressionNode part = read_atom(depth);
    skip_spaces();
    ExpressionNode repeat{.kind = ExpressionNode::Kind::kRepeat, .least = 0, .most = -1};
    if (skip('+')) {
      repeat.least = 1;
    } else if (skip('?')) {
      repeat.most = 1;
    } else if (skip('{')) {
      read_counts(repeat);
    } else if (!skip('*')) {
      return part;
    }
    skip_spaces();
    if (is('*') || is('+') || is('?') || is('{'))
      fail("no second repetition", "; repeat twice with parentheses, as in (a*)*");
    repeat.parts.push_back(std::move(part));
    return repeat;
  }

  /// After the brace: 3} or 2,} or 2,5}.
  void read_counts(ExpressionNode& repeat) {
    repeat.least = repeat.most = read_count();
    skip_spaces();
    if (skip(',')) {
      skip_spaces();
      const size_t start = at_;
      repeat.most = is('}') ? -1 : read_count();
      if (repeat.most >= 0 && repeat.most < repeat.least) {
        at_ = start;
        fail("a number from " + std::to_string(repeat.least) + " on");
      }
      skip_spaces();
      if (!skip('}')) fail("'}'");
    } else if (!skip('}')) {
      fail("',' or '}'");
    }
  }

  int64_t read_count() {
    skip_spaces();
    const size_t start = at_;
    int64_t count = 0;
    for (; !at_end() && code() >= '0' && code() <= '9'; ++at_)
      count = std::min<int64_t>(10 * count + static_cast<int64_t>(code() - '0'),
                                Expression::kMaxRepeat + 1);
    if (at_ == start || count > Expression::kMaxRepeat) {
      at_ = start;
      fail("a number of times up to " + std::to_string(Expression::kMaxRepeat));
    }
    return count;
  }

  ExpressionNode read_atom(int depth) {
    if (is('(')) {
      if (depth == Expression::kMaxDepth)
        fail("parentheses nested at most " + std::to_string(Expression::kMaxDepth) + " deep");
      ++at_;
      ExpressionNode inner = read_choice(depth + 1);
      if (!skip(')')) fail("')'");
      return inner;
    }
    if (skip('[')) return read_brackets();
    ExpressionNode set{.kind = ExpressionNode::Kind::kSet};
    if (skip('.')) {
      set.negated = true;  // of nothing
      return set;
    }
    if (!is('\\') && code() < 0x80 &&
        std::string_view("*+?{}]^$").find(static_cast<char>(code())) != std::string_view::npos) {
      const std::string escaped = " for the character";
      fail(is('}') || is(']') || is('^') || is('$') ? "an expression" : "something to repeat",
           "; write \\" + std::string(characters_[at_].bytes) + escaped);
    }
    const char32_t character = read_character();
    set.ranges.emplace_back(character, character);
    return set;
  }

  /// After the bracket. A '-' that is first or last stands for itself.
  ExpressionNode read_brackets() {
    ExpressionNode set{.kind = ExpressionNode::Kind::kSet};
    set.negated = skip('^');
    if (is(']')) fail("a character");
    while (!skip(']')) {
      if (at_end()) fail("']'");
      const size_t start = at_;
      const char32_t first = read_character();
      char32_t last = first;
      if (is('-') && at_ + 1 < characters_.size() && characters_[at_ + 1].code != ']') {
        ++at_;
        const size_t end = at_;
        last = read_character();
        if (last < first) {
          at_ = end;
          fail("a character from " + quote(utf8_encode(first)) + " on");
        }
      }
      name(first, last, start);
      set.ranges.emplace_back(first, last);
    }
    return set;
  }

  /// A character that stands for itself, or one after a backslash.
  char32_t read_character() {
    const size_t start = at_;
    if (skip('\\')) {
      if (at_end()) fail("a character after the backslash");
      const char32_t c = code();
      const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (is_letter || (c >= '0' && c <= '9'))
        fail("a character other than a letter or digit after the backslash");
    }
    if (at_end()) fail("a character");
    const char32_t result = code();
    ++at_;
    name(result, result, start);
    return result;
  }

  void name(char32_t first, char32_t last, size_t start) {
    for (char32_t c = first; c <= last; ++c) {
      if (c >= 0xd800 && c < 0xe000) continue;  // halves of UTF-16 pairs are no characters
      named_.insert(c);
      if (named_.size() > Expression::kMaxCharacters) {
        at_ = start;
        throw error("at most " + std::to_string(Expression::kMaxCharacters) +
                        " different characters up to the one",
                    "more");
      }
    }
  }

  bool at_end() const { return at_ == characters_.size(); }
  char32_t code() const { return characters_[at_].code; }
  bool is(char c) const { return !at_end() && code() == static_cast<unsigned char>(c); }
  bool skip(char c) {
    if (!is(c)) return false;
    ++at_;
    return true;
  }
  void skip_spaces() {
    while (is(' ') || is('\t') || is('\n') || is('\r')) ++at_;
  }

  InputError error(const std::string& expected, const std::string& found) const {
    return InputError("regular expression " + quote(text_) + ": expected " + expected +
                      " at position " + std::to_string(at_ + 1) + ", found " + found);
  }
  [[noreturn]] void fail(const std::string& expected, const std::string& hint = "") const {
    throw error(expected, (at_end() ? "the end" : quote(characters_[at_].bytes)) + hint);
  }

  std::string_view text_;
  std::vector<Character> characters_;
  std::set<char32_t> named_;
  size_t at_ = 0;
};

}  // namespace

Expression parse_expression(std::string_view text) { return ExpressionReader(text).read(); }

std::vector<char32_t> decode_utf8(std::string_view text, const std::string& what) {
  std::vector<char32_t> result;
  while (!text.empty()) {
    const Character first = first_character(text);
    if (first.bytes.empty()) throw InputError(not_utf8(what, result.size(), text));
    result.push_back(first.code);
    text.remove_prefix(first.bytes.size());
  }
  return result;
}

}  // namespace dp
