#include "chat/parse_expression.h"

#include <array>

#include "base/quote.h"

namespace dp::chat {
namespace {

// Rendering recurses once per level: deeper ones, and longer chains of operators, are refused.
constexpr int kDeepest = 40, kMostLinks = 200;

std::string shown(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kText:
      return "text";
    case Token::Kind::kEnd:
      return "the end of the template";
    default:
      return quote(token.text);
  }
}

}  // namespace

bool TokenReader::is_sign(std::string_view sign) const {
  return peek().kind == Token::Kind::kSign && peek().text == sign;
}
bool TokenReader::is_word(std::string_view word) const {
  return peek().kind == Token::Kind::kName && peek().text == word;
}
bool TokenReader::take_sign(std::string_view sign) {
  if (!is_sign(sign)) return false;
  ++at_;
  return true;
}
bool TokenReader::take_word(std::string_view word) {
  if (!is_word(word)) return false;
  ++at_;
  return true;
}
void TokenReader::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) unexpected(quote(sign));
}
std::string TokenReader::expect_name(const char* what) {
  if (peek().kind != Token::Kind::kName) unexpected(what);
  return take().text;
}
void TokenReader::fail(const std::string& problem) const {
  throw TemplateError("line " + std::to_string(peek().line) + ": " + problem);
}
void TokenReader::unexpected(const std::string& expected) const {
  fail("found " + shown(peek()) + ", expected " + expected);
}

/// Counts how deep the parser is.
class ExpressionParser::Nested {
 public:
  explicit Nested(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.depth_ > kDeepest) parser_.reader_.fail("expressions are nested too deep");
  }
  ~Nested() { --parser_.depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  ExpressionParser& parser_;
};

// One more operator, member or filter on a value: each is a level of the tree.
void ExpressionParser::count_link() {
  if (++links_ > kMostLinks) reader_.fail("an expression has more than 200 operators");
}

ExpressionPtr ExpressionParser::make(Kind kind, std::string name) const {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->name = std::move(name);
  expression->line = reader_.peek().line;
  return expression;
}

ExpressionPtr ExpressionParser::parse_list() {
  ExpressionPtr first = parse();
  if (!reader_.is_sign(",")) return first;
  ExpressionPtr list = make(Kind::kList);
  list->parts.push_back(std::move(first));
  while (reader_.take_sign(",") && reader_.peek().kind != Token::Kind::kClose)
    list->parts.push_back(parse());
  return list;
}

ExpressionPtr ExpressionParser::parse(bool condition) {
  const Nested nested(*this);
  if (depth_ == 1) links_ = 0;
  ExpressionPtr value = parse_any_or();
  while (condition && reader_.is_word("if")) {
    ExpressionPtr choice = make(Kind::kCondition);
    reader_.take();
    count_link();
    choice->parts.push_back(std::move(value));
    choice->parts.push_back(parse_any_or());
    choice->parts.push_back(reader_.take_word("else") ? parse() : nullptr);
    value = std::move(choice);
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_any_or() {
  ExpressionPtr first = parse_and();
  if (!reader_.is_word("or")) return first;
  ExpressionPtr any = make(Kind::kOr);
  any->parts.push_back(std::move(first));
  while (reader_.take_word("or")) any->parts.push_back(parse_and());
  return any;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr first = parse_not();
  if (!reader_.is_word("and")) return first;
  ExpressionPtr all = make(Kind::kAnd);
  all->parts.push_back(std::move(first));
  while (reader_.take_word("and")) all->parts.push_back(parse_not());
  return all;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!reader_.is_word("not")) return parse_compare();
  const Nested nested(*this);
  ExpressionPtr negation = make(Kind::kNot);
  reader_.take();
  negation->parts.push_back(parse_not());
  return negation;
}

ExpressionPtr ExpressionParser::parse_compare() {
  ExpressionPtr first = parse_sum();
  ExpressionPtr all = make(Kind::kCompare);
  for (;;) {
    std::string name;
    for (const char* sign : {"==", "!=", "<", "<=", ">", ">="})
      if (reader_.is_sign(sign)) name = sign;
    if (reader_.is_word("in")) name = "in";
    if (reader_.is_word("not")) name = "not in";
    if (name.empty()) break;
    reader_.take();
    if (name == "not in" && !reader_.take_word("in")) reader_.unexpected("'in'");
    all->names.push_back(name);
    all->parts.push_back(parse_sum());
  }
  if (all->parts.empty()) return first;
  all->parts.insert(all->parts.begin(), std::move(first));
  return all;
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_concatenation();
  while (reader_.is_sign("+") || reader_.is_sign("-")) {
    count_link();
    ExpressionPtr both = make(Kind::kBinary, reader_.take().text);
    both->parts.push_back(std::move(left));
    both->parts.push_back(parse_concatenation());
    left = std::move(both);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concatenation() {
  ExpressionPtr left = parse_product();
  while (reader_.take_sign("~")) {
    count_link();
    ExpressionPtr both = make(Kind::kBinary, "~");
    both->parts.push_back(std::move(left));
    both->parts.push_back(parse_product());
    left = std::move(both);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_product() {
  ExpressionPtr left = parse_unary(true);
  for (;;) {
    std::string name;
    for (const char* sign : {"*", "/", "//", "%"})
      if (reader_.is_sign(sign)) name = sign;
    if (reader_.is_sign("**")) reader_.fail("the operator '**' is not known here");
    if (name.empty()) return left;
    reader_.take();
    count_link();
    ExpressionPtr both = make(Kind::kBinary, name);
    both->parts.push_back(std::move(left));
    both->parts.push_back(parse_unary(true));
    left = std::move(both);
  }
}

ExpressionPtr ExpressionParser::parse_unary(bool filters) {
  const Nested nested(*this);
  ExpressionPtr value;
  if (reader_.take_sign("-")) {
    value = make(Kind::kNegate);
    value->parts.push_back(parse_unary(false));
  } else {
    reader_.take_sign("+");
    value = parse_postfix(parse_primary());
  }
  return filters ? parse_filters(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& next = reader_.peek();
  ExpressionPtr value = make(Kind::kLiteral);
  switch (next.kind) {
    case Token::Kind::kString: {
      std::string text;
      while (reader_.peek().kind == Token::Kind::kString) text += reader_.take().text;
      value->value = std::move(text);
      return value;
    }
    case Token::Kind::kInteger:
      value->value = int64_t{std::stoll(reader_.take().text)};
      return value;
    case Token::Kind::kFloat:
      value->value = std::stod(reader_.take().text);
      return value;
    case Token::Kind::kName: {
      const std::string name = reader_.take().text;
      if (name == "true" || name == "True")
        value->value = true;
      else if (name == "false" || name == "False")
        value->value = false;
      else if (name == "none" || name == "None")
        value->value = nullptr;
      else
        value->kind = Kind::kName, value->name = name;
      return value;
    }
    default:
      return parse_bracketed();
  }
}

ExpressionPtr ExpressionParser::parse_bracketed() {
  if (reader_.is_sign("{")) return parse_dict();
  const bool list = reader_.is_sign("[");
  if (!list && !reader_.is_sign("(")) reader_.unexpected("an expression");
  reader_.take();
  const std::string_view close = list ? "]" : ")";
  ExpressionPtr all = make(Kind::kList);
  bool comma = list;
  while (!reader_.is_sign(close)) {
    all->parts.push_back(parse());
    if (!reader_.take_sign(",")) break;
    comma = true;
  }
  reader_.expect_sign(close);
  if (comma || all->parts.empty()) return all;
  return std::move(all->parts[0]);  // brackets around one expression
}

ExpressionPtr ExpressionParser::parse_dict() {
  ExpressionPtr dict = make(Kind::kDict);
  reader_.take();
  while (!reader_.is_sign("}")) {
    dict->parts.push_back(parse());
    reader_.expect_sign(":");
    dict->parts.push_back(parse());
    if (!reader_.take_sign(",")) break;
  }
  reader_.expect_sign("}");
  return dict;
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr value) {
  for (;;) {
    if (reader_.take_sign(".")) {
      count_link();
      ExpressionPtr member = make(Kind::kMember, reader_.expect_name("a name after '.'"));
      member->parts.push_back(std::move(value));
      value = std::move(member);
    } else if (reader_.take_sign("[")) {
      count_link();
      value = parse_subscript(std::move(value));
    } else if (reader_.is_sign("(")) {
      const bool method = value->kind == Kind::kMember;
      if (!method && value->kind != Kind::kName)
        reader_.unexpected("the name of a function before '('");
      if (method ? !is_known_method(value->name)
                 : !is_known_function(value->name) && !macros_.contains(value->name))
        reader_.fail(std::string("the ") + (method ? "method " : "function ") + quote(value->name) +
                     " is not known here");
      value->kind = method ? Kind::kMethod : Kind::kCall;
      parse_arguments(*value);
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr value) {
  std::array<ExpressionPtr, 3> bounds;
  size_t colons = 0;
  while (!reader_.is_sign("]")) {
    if (reader_.take_sign(":")) {
      if (++colons > 2) reader_.unexpected("']'");
    } else {
      if (bounds[colons]) reader_.unexpected("':' or ']'");
      bounds[colons] = parse();
    }
  }
  ExpressionPtr part = make(colons > 0 ? Kind::kSlice : Kind::kIndex);
  if (colons == 0 && !bounds[0]) reader_.unexpected("an expression");
  reader_.take();
  part->parts.push_back(std::move(value));
  for (size_t i = 0; i < (colons > 0 ? 3u : 1u); ++i) part->parts.push_back(std::move(bounds[i]));
  return part;
}

void ExpressionParser::parse_arguments(Expression& call) {
  reader_.expect_sign("(");
  while (!reader_.is_sign(")")) {
    if (reader_.is_sign("*") || reader_.is_sign("**"))
      reader_.fail("'*' in arguments is not known here");
    ExpressionPtr argument = parse();
    if (reader_.is_sign("=") && argument->kind == Kind::kName) {
      reader_.take();
      std::string name = argument->name;
      call.named.emplace_back(std::move(name), parse());
    } else {
      if (!call.named.empty()) reader_.unexpected("an argument with a name");
      call.parts.push_back(std::move(argument));
    }
    if (!reader_.take_sign(",")) break;
  }
  reader_.expect_sign(")");
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr value) {
  for (;;) {
    if (reader_.take_sign("|")) {
      count_link();
      value = parse_filter(std::move(value));
    } else if (reader_.take_word("is")) {
      count_link();
      value = parse_test(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr value) {
  const std::string name = reader_.expect_name("a filter's name after '|'");
  if (!is_known_filter(name)) reader_.fail("the filter " + quote(name) + " is not known here");
  ExpressionPtr filter = make(Kind::kFilter, name);
  filter->parts.push_back(std::move(value));
  if (reader_.is_sign("(")) parse_arguments(*filter);
  // A member of what a filter gives: (x | first).role is more common, but Jinja takes this too.
  return parse_postfix(std::move(filter));
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr value) {
  const bool negated = reader_.take_word("not");
  const std::string name = reader_.expect_name("a test's name after 'is'");
  if (!is_known_test(name)) reader_.fail("the test " + quote(name) + " is not known here");
  ExpressionPtr test = make(Kind::kTest, name);
  test->parts.push_back(std::move(value));
  const Token& next = reader_.peek();
  const bool word = next.kind == Token::Kind::kName && next.text != "and" && next.text != "or" &&
                    next.text != "else" && next.text != "if" && next.text != "is" &&
                    next.text != "in" && next.text != "not";
  const bool literal = next.kind == Token::Kind::kString || next.kind == Token::Kind::kInteger ||
                       next.kind == Token::Kind::kFloat;
  if (reader_.is_sign("("))
    parse_arguments(*test);
  else if (word || literal || reader_.is_sign("[") || reader_.is_sign("{"))
    test->parts.push_back(parse_postfix(parse_primary()));
  if (!test->named.empty()) reader_.fail("a test takes no named arguments here");
  if (!negated) return test;
  ExpressionPtr negation = make(Kind::kNot);
  negation->parts.push_back(std::move(test));
  return negation;
}

}  // namespace dp::chat
