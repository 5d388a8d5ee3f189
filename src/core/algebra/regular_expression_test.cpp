#include "algebra/regular_expression.h"

#include <gtest/gtest.h>

#include <regex>

#include "algebra/test_automata.h"
#include "base/test_input_error.h"

namespace dp {
namespace {

std::string parse_error(std::string_view text, std::string_view alphabet = {}) {
  return input_error([&] { parse_regular_expression(text, alphabet); });
}

std::string spelt(const Automaton& automaton, const Word& word) {
  std::string text;
  for (const int32_t symbol : word) text += automaton.alphabet[static_cast<size_t>(symbol)];
  return text;
}

/// On every word of up to `longest` symbols; returns how many of them match.
int expect_like_std_regex(const std::string& expression, const std::string& alphabet,
                          size_t longest) {
  SCOPED_TRACE(expression);
  const Automaton automaton = parse_regular_expression(expression, alphabet);
  const std::regex judge(expression, std::regex::ECMAScript);
  int matches = 0;
  for_each_word(automaton.num_symbols(), longest, [&](const Word& word) {
    const std::string text = spelt(automaton, word);
    const bool expected = std::regex_match(text, judge);
    ASSERT_EQ(automaton.accepts(word), expected) << "on '" << text << "'";
    matches += expected;
  });
  return matches;
}

/// Random expressions in the common language of both; `depth` bounds how parts nest.
std::string random_expression(int depth, std::mt19937& rng) {
  static const char* const atoms[] = {"a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", "()", "[^bc]"};
  if (depth == 0) return atoms[below(9, rng)];
  const auto part = [&] { return random_expression(depth - 1, rng); };
  switch (below(8, rng)) {
    case 0:
    case 1:
      return part() + part();
    case 2:
      return "(" + part() + "|" + part() + ")";
    case 3:
      return "(" + part() + "|" + part() + "|" + part() + ")";
    case 4:
      return "(" + part() + ")*";
    case 5:
      return "(" + part() + ")" + (below(2, rng) ? "+" : "?");
    case 6: {
      const int32_t least = below(3, rng);
      std::string counts = "{" + std::to_string(least);
      if (below(2, rng))
        counts += "," + (below(2, rng) ? std::to_string(least + below(3, rng)) : "");
      return "(" + part() + ")" + counts + "}";
    }
    default:
      return part();
  }
}

TEST(RegularExpression, LikeStdRegex) {
  const char* const expressions[] = {"ab",
                                     "a|b",
                                     "(a)",
                                     "a*",
                                     "a+",
                                     "a?",
                                     "a{3}",
                                     "a{2,5}",
                                     "a{2,}",
                                     "a{0}",
                                     "a{0,2}",
                                     "[abc]",
                                     "[a-c]",
                                     "[^ab]",
                                     ".",
                                     "()",
                                     "(a|)",
                                     "(|b)c",
                                     "",
                                     "a|b|",
                                     "(ab)*",
                                     "(a|b)*abb",
                                     "((a))",
                                     "(b*ab*a)*b*",
                                     ".*abc.*",
                                     "(a*)*",
                                     "(a*b*)*",
                                     "(a|())*b",
                                     "(a?){3}",
                                     "(a*){2,3}c",
                                     "[-a]b",
                                     "[a-]",
                                     "[a\\-c]",
                                     "\\(a\\)",
                                     "a\\*",
                                     "[*.+]",
                                     "[\\]a]",
                                     "a.c",
                                     "[^a-b]*",
                                     "(a|b){2}",
                                     "((a|b)(a|b))*",
                                     "(a{2}|b{3})*",
                                     "a{1,1}",
                                     "(ab?){2,4}",
                                     "(a+b+)+",
                                     "[aab]",
                                     "(()|a){2,}"};
  for (const char* expression : expressions) expect_like_std_regex(expression, "abc", 5);
}

TEST(RegularExpression, RandomOnesLikeStdRegex) {
  std::mt19937 rng(20240);
  int matches = 0;
  for (int i = 0; i < 600; ++i)
    matches += expect_like_std_regex(random_expression(1 + below(3, rng), rng), "abc", 4);
  EXPECT_GT(matches, 600 * 10);
}

TEST(RegularExpression, IsMinimalAndNumbered) {
  const struct {
    const char* expression;
    int32_t num_states;
  } cases[] = {{"a", 3},          {"(a|b)*abb", 4},   {"(ab)*", 3},
               {"a|aa|aaa", 5},   {"(a|b)*", 1},      {"[^a-b]", 1},
               {"a{1000}", 1002}, {"(b*ab*a)*b*", 2}, {"(0|1(01*0)*1)*", 3},
               {".*a.{7}", 256}};
  for (const auto& [expression, num_states] : cases) {
    SCOPED_TRACE(expression);
    const bool binary = expression[1] == '0';
    const Automaton automaton = parse_regular_expression(expression, binary ? "01" : "ab");
    EXPECT_NO_THROW(check(automaton));
    EXPECT_EQ(automaton.num_states(), num_states);
    EXPECT_EQ(automaton.start, 0);
    const Automaton again = minimised(automaton);
    EXPECT_EQ(again.moves, automaton.moves);
    EXPECT_EQ(again.state_names, automaton.state_names);
  }
}

TEST(RegularExpression, AlphabetIsSortedAndMayBeLarger) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(parse_regular_expression("cab").alphabet, (Names{"a", "b", "c"}));
  EXPECT_EQ(parse_regular_expression("[^x]", "zy").alphabet, (Names{"x", "y", "z"}));
  EXPECT_EQ(parse_regular_expression("()", "ba").alphabet, (Names{"a", "b"}));
  EXPECT_EQ(parse_regular_expression("a\\.").alphabet, (Names{".", "a"}));
  EXPECT_EQ(parse_regular_expression("[c-e]").alphabet, (Names{"c", "d", "e"}));
}

TEST(RegularExpression, CharactersAreCodePoints) {
  const Automaton automaton = parse_regular_expression("(é|日){2}[α-γ]𝄞*");
  EXPECT_EQ(automaton.alphabet, (std::vector<std::string>{"é", "α", "β", "γ", "日", "𝄞"}));
  EXPECT_TRUE(automaton.accepts(Word{0, 4, 2}));
  EXPECT_TRUE(automaton.accepts(Word{4, 4, 3, 5, 5}));
  EXPECT_FALSE(automaton.accepts(Word{0, 2}));
}

TEST(RegularExpression, SpacesCountOnlyInBracketsOrEscaped) {
  const Automaton spaced = parse_regular_expression(" a  b * | ( c ) { 2 , 3 } ");
  const Automaton dense = parse_regular_expression("ab*|(c){2,3}");
  EXPECT_EQ(spaced.alphabet, dense.alphabet);
  EXPECT_EQ(spaced.moves, dense.moves);
  EXPECT_EQ(parse_regular_expression("a\\ b").alphabet[0], " ");
  EXPECT_EQ(parse_regular_expression("a[ ]b").alphabet[0], " ");
}

TEST(RegularExpression, ErrorsNameThePosition) {
  const std::pair<const char*, const char*> cases[] = {
      {"a(b", "expected ')' at position 4, found the end"},
      {"ab)", "expected the end at position 3, found ')'"},
      {"*a", "expected something to repeat at position 1, found '*'; write \\* for the character"},
      {"a|+", "expected something to repeat at position 3, found '+'; write \\+ for the character"},
      {"{2}", "expected something to repeat at position 1, found '{'; write \\{ for the character"},
      {"ab}", "expected an expression at position 3, found '}'; write \\} for the character"},
      {"^a$", "expected an expression at position 1, found '^'; write \\^ for the character"},
      {"a**",
       "expected no second repetition at position 3, found '*'; repeat twice with "
       "parentheses, as in (a*)*"},
      {"a{2}{3}",
       "expected no second repetition at position 5, found '{'; repeat twice with "
       "parentheses, as in (a*)*"},
      {"a{", "expected a number of times up to 1000 at position 3, found the end"},
      {"a{x}", "expected a number of times up to 1000 at position 3, found 'x'"},
      {"a{1001}", "expected a number of times up to 1000 at position 3, found '1'"},
      {"a{99999999999999999999}", "expected a number of times up to 1000 at position 3, found '9'"},
      {"a{3", "expected ',' or '}' at position 4, found the end"},
      {"a{3,2}", "expected a number from 3 on at position 5, found '2'"},
      {"a{3,4", "expected '}' at position 6, found the end"},
      {"a[", "expected ']' at position 3, found the end"},
      {"[]", "expected a character at position 2, found ']'"},
      {"[^]", "expected a character at position 3, found ']'"},
      {"[b-a]", "expected a character from 'b' on at position 4, found 'a'"},
      {"[a-", "expected ']' at position 4, found the end"},
      {"ab\\", "expected a character after the backslash at position 4, found the end"},
      {"a\\d",
       "expected a character other than a letter or digit after the backslash at position 3, "
       "found 'd'"},
      {"éé)", "expected the end at position 3, found ')'"},
      {"[a-\xf0\x90\x80\x80]",
       "expected at most 256 different characters up to the one at position 2, "
       "found more"},
  };
  for (const auto& [text, problem] : cases)
    EXPECT_EQ(parse_error(text, "ab"),
              std::string("regular expression '") + text + "': " + problem);
}

TEST(RegularExpression, RefusesWhatIsNoUtf8) {
  for (const char* text : {"a\xff", "a\xc0\xaf", "a\xe0\x9f\xbf", "a\xed\xa0\x80",
                           "a\xf4\x90\x80\x80", "a\xf0\x8f\xbf\xbf", "a\xc3", "a\x80"}) {
    EXPECT_EQ(parse_error(text),
              "regular expression: expected UTF-8 at position 2, found the byte " +
                  std::to_string(static_cast<unsigned char>(text[1])));
  }
  EXPECT_EQ(parse_error("a", "b\xff"),
            "alphabet 'b\xff': expected UTF-8 at position 2, found the byte 255");
}

TEST(RegularExpression, NeedsAnAlphabet) {
  for (const char* text : {"", "()", ".*", " "})
    EXPECT_EQ(parse_error(text), std::string("regular expression '") + text +
                                     "': expected a character that names a symbol, found none; "
                                     "name an alphabet");
}

TEST(RegularExpression, RefusesWhatWouldTakeTooMuch) {
  const std::string states = ": expected an automaton of at most 10000 states, found more";
  EXPECT_EQ(parse_error("(a{1000}){1000}"), "regular expression '(a{1000}){1000}'" + states);
  EXPECT_EQ(parse_error(".*a.{20}", "ab"), "regular expression '.*a.{20}'" + states);
  EXPECT_EQ(parse_error("((){1000}){1000}", "a"), "regular expression '((){1000}){1000}'" + states);
  EXPECT_EQ(parse_error("(((((((a?){9})*){9})*){9})*){9}").substr(0, 18), "regular expression");
  EXPECT_EQ(
      parse_error("(.?.?.?){1000}.*a.{9}", "ab"),
      "regular expression '(.?.?.?){1000}.*a.{9}'" +
          std::string(": expected an automaton of at most 5000000 steps to build, found more"));
  const auto nested = [](size_t depth) {
    return std::string(depth, '(') + "a" + std::string(depth, ')');
  };
  EXPECT_EQ(parse_error("[a-z]{0,1000}"), "no error");
  EXPECT_EQ(parse_error(nested(200)), "no error");
  EXPECT_EQ(parse_error(nested(201)),
            "regular expression '" + std::string(120, '(') +
                "...': expected parentheses nested at most 200 deep at position 201, found '('");
  EXPECT_EQ(parse_error(std::string(100'001, 'a')),
            "regular expression '" + std::string(120, 'a') +
                "...': expected at most 100000 bytes, found 100001");
}

}  // namespace
}  // namespace dp
