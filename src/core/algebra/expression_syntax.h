// Regular expressions as syntax trees.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dp {

struct ExpressionNode {
  enum class Kind { kSet, kSequence, kChoice, kRepeat };
  Kind kind;
  // kSet: the characters from first to last, or all others.
  std::vector<std::pair<char32_t, char32_t>> ranges = {};
  bool negated = false;
  // kSequence: any number of parts, none for the empty word; kChoice: at least two; kRepeat: one.
  std::vector<ExpressionNode> parts = {};
  int64_t least = 0, most = 0;  // times; most < 0: no bound
};

struct Expression {
  /// Bounds that keep hostile text from taking all memory or the stack.
  static constexpr int64_t kMaxRepeat = 1000;
  static constexpr int kMaxDepth = 200;
  static constexpr size_t kMaxCharacters = 256;  // different ones
  static constexpr size_t kMaxBytes = 100'000;

  ExpressionNode root;
  std::set<char32_t> named;  // all characters that the text names, also in [^...]
};

/// The language is described in algebra/regular_expression.h. Throws InputError that names the position.
Expression parse_expression(std::string_view text);

/// The characters of UTF-8 text. Throws InputError for other bytes; `what` is whose text it is.
std::vector<char32_t> decode_utf8(std::string_view text, const std::string& what);

}  // namespace dp
