// Expressions of a chat template, from the words of a tag.
#pragma once
#include <set>

#include "chat/lexer.h"
#include "chat/syntax.h"

namespace dp::chat {

/// Reads tokens one after another.
class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek() const { return tokens_[at_]; }
  Token take() { return tokens_[at_].kind == Token::Kind::kEnd ? tokens_[at_] : tokens_[at_++]; }
  bool is_sign(std::string_view sign) const;
  bool is_word(std::string_view word) const;
  /// Whether it was next, and is taken.
  bool take_sign(std::string_view sign);
  bool take_word(std::string_view word);
  void expect_sign(std::string_view sign);
  std::string expect_name(const char* what);
  [[noreturn]] void fail(const std::string& problem) const;
  /// "found X, expected ..."
  [[noreturn]] void unexpected(const std::string& expected) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  /// `macros`: names that may be called beside the functions; both must live as long.
  ExpressionParser(TokenReader& reader, const std::set<std::string>& macros)
      : reader_(reader), macros_(macros) {}

  /// Commas make a list of several, as in "for x in 1, 2".
  ExpressionPtr parse_list();
  /// `condition` false: without "a if b else c", as a loop's filter begins with "if" too.
  ExpressionPtr parse(bool condition = true);

 private:
  using Kind = Expression::Kind;
  class Nested;

  ExpressionPtr parse_any_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_unary(bool filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_bracketed();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr value);
  ExpressionPtr parse_subscript(ExpressionPtr value);
  ExpressionPtr parse_filters(ExpressionPtr value);
  ExpressionPtr parse_filter(ExpressionPtr value);
  ExpressionPtr parse_test(ExpressionPtr value);
  void parse_arguments(Expression& call);
  ExpressionPtr make(Kind kind, std::string name = "") const;
  void count_link();

  TokenReader& reader_;
  const std::set<std::string>& macros_;
  int depth_ = 0, links_ = 0;
};

}  // namespace dp::chat
