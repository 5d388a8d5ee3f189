#include "base/quote.h"
#include "chat/parse_expression.h"

namespace dp::chat {
namespace {

constexpr size_t kLargestTemplate = 1 << 20;
constexpr int kDeepestBlock = 40;

// Of the whole template: a macro may call one that comes after it.
std::set<std::string> macro_names(const std::vector<Token>& tokens) {
  std::set<std::string> names;
  for (size_t i = 2; i < tokens.size(); ++i)
    if (tokens[i - 2].kind == Token::Kind::kOpenBlock && tokens[i - 1].text == "macro")
      names.insert(tokens[i].text);
  return names;
}

/// Statements. A block is read up to one of the words that may end it.
class TemplateParser {
 public:
  explicit TemplateParser(std::vector<Token> tokens)
      : macros_(macro_names(tokens)), reader_(std::move(tokens)) {}

  Body parse() {
    Body body = parse_body({});
    if (reader_.peek().kind != Token::Kind::kEnd) reader_.unexpected("the end of the template");
    return body;
  }

 private:
  using Kind = Statement::Kind;
  using Words = std::vector<std::string_view>;

  // Until the end, or a block that begins with one of `ends`, whose first word is taken too.
  Body parse_body(const Words& ends) {
    if (++depth_ > kDeepestBlock) reader_.fail("blocks are nested too deep");
    Body body;
    for (;;) {
      const Token next = reader_.peek();
      if (next.kind == Token::Kind::kText) {
        Statement& text = add(body, Kind::kText);
        text.text = reader_.take().text;
      } else if (next.kind == Token::Kind::kOpenPrint) {
        reader_.take();
        Statement& print = add(body, Kind::kPrint);
        print.expression = expressions_.parse_list();
        close();
      } else if (next.kind == Token::Kind::kOpenBlock) {
        reader_.take();
        for (const std::string_view end : ends)
          if (reader_.is_word(end)) return --depth_, std::move(body);
        parse_statement(body);
      } else if (next.kind == Token::Kind::kEnd && ends.empty()) {
        return --depth_, std::move(body);
      } else {
        reader_.unexpected(ends.empty() ? "text or a tag" : quote(ends.back()));
      }
    }
  }

  Statement& add(Body& body, Kind kind) const {
    Statement& statement = body.emplace_back();
    statement.kind = kind;
    statement.line = reader_.peek().line;
    return statement;
  }

  void close() {
    if (reader_.peek().kind != Token::Kind::kClose) reader_.unexpected("the end of the tag");
    reader_.take();
  }

  void end_block(std::string_view word) {
    if (!reader_.take_word(word)) reader_.unexpected(quote(word));
    close();
  }

  void parse_statement(Body& body) {
    if (reader_.take_word("if")) return parse_if(add(body, Kind::kIf));
    if (reader_.take_word("for")) return parse_for(add(body, Kind::kFor));
    if (reader_.take_word("set")) return parse_set(add(body, Kind::kSet));
    if (reader_.take_word("macro")) return parse_macro(add(body, Kind::kMacro));
    if (reader_.is_word("break") || reader_.is_word("continue")) {
      if (loops_ == 0) reader_.fail(quote(reader_.peek().text) + " stands in no loop");
      add(body, reader_.take().text == "break" ? Kind::kBreak : Kind::kContinue);
      return close();
    }
    if (reader_.take_word("generation")) {  // what training counts as the model's own words
      close();
      for (Statement& statement : parse_body({"endgeneration"}))
        body.push_back(std::move(statement));
      return end_block("endgeneration");
    }
    if (reader_.peek().kind == Token::Kind::kName)
      reader_.fail("the statement " + quote(reader_.peek().text) + " is not known here");
    reader_.unexpected("a statement");
  }

  void parse_if(Statement& statement) {
    ExpressionPtr condition = expressions_.parse();
    for (;;) {
      close();
      Body body = parse_body({"elif", "else", "endif"});
      const bool last = condition == nullptr;
      statement.branches.emplace_back(std::move(condition), std::move(body));
      if (!last && reader_.take_word("elif")) {
        condition = expressions_.parse();
      } else if (!last && reader_.take_word("else")) {
        condition = nullptr;
      } else {
        return end_block("endif");
      }
    }
  }

  std::vector<std::string> parse_names() {
    std::vector<std::string> names;
    const bool bracket = reader_.take_sign("(");
    do names.push_back(reader_.expect_name("a name"));
    while (reader_.take_sign(","));
    if (bracket) reader_.expect_sign(")");
    return names;
  }

  void parse_for(Statement& statement) {
    statement.names = parse_names();
    if (!reader_.take_word("in")) reader_.unexpected("'in'");
    statement.expression = expressions_.parse(/*condition=*/false);
    if (reader_.take_word("if")) statement.condition = expressions_.parse();
    if (reader_.is_word("recursive")) reader_.fail("recursive loops are not known here");
    close();
    ++loops_;
    statement.bodies.push_back(parse_body({"else", "endfor"}));
    --loops_;
    if (reader_.take_word("else")) {
      close();
      statement.bodies.push_back(parse_body({"endfor"}));
    }
    end_block("endfor");
  }

  void parse_set(Statement& statement) {
    statement.names = parse_names();
    if (reader_.take_sign(".")) statement.member = reader_.expect_name("a name after '.'");
    if (reader_.take_sign("=")) {
      statement.expression = expressions_.parse_list();
      return close();
    }
    if (reader_.is_sign("|")) reader_.fail("a filter of a 'set' block is not known here");
    if (statement.names.size() > 1 || !statement.member.empty()) reader_.unexpected("'='");
    statement.kind = Kind::kSetBlock;
    close();
    statement.bodies.push_back(parse_body({"endset"}));
    end_block("endset");
  }

  void parse_macro(Statement& statement) {
    statement.text = reader_.expect_name("the macro's name");
    reader_.expect_sign("(");
    while (!reader_.is_sign(")")) {
      statement.names.push_back(reader_.expect_name("a parameter's name"));
      statement.defaults.push_back(reader_.take_sign("=") ? expressions_.parse() : nullptr);
      if (!reader_.take_sign(",")) break;
    }
    reader_.expect_sign(")");
    close();
    const int loops = std::exchange(loops_, 0);
    statement.bodies.push_back(parse_body({"endmacro"}));
    loops_ = loops;
    end_block("endmacro");
  }

  const std::set<std::string> macros_;
  TokenReader reader_;
  ExpressionParser expressions_{reader_, macros_};
  int depth_ = 0, loops_ = 0;
};

}  // namespace

Body parse_template(std::string_view source) {
  if (source.size() > kLargestTemplate)
    throw TemplateError("it has " + std::to_string(source.size()) + " bytes, expected at most " +
                        std::to_string(kLargestTemplate));
  return TemplateParser(cut_template(source)).parse();
}

}  // namespace dp::chat
