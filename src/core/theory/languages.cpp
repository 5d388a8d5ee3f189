#include "theory/languages.h"

#include "algebra/regular_expression.h"

namespace dp::theory {
namespace {

// Three cups and a ball under the first: s swaps the first two, t the last two, and r, if there is one, puts the ball
// back. Accepts if the ball is under the first.
Automaton cups(bool with_reset) {
  Automaton a;
  a.alphabet = {"s", "t"};
  a.state_names = {"first", "second", "third"};
  a.accepting = {true, false, false};
  a.moves = {{1, 0, 2}, {0, 2, 1}};
  if (with_reset) {
    a.alphabet.emplace_back("r");
    a.moves.push_back({0, 0, 0});
  }
  return minimised(a);
}

}  // namespace

std::vector<Language> example_languages() {
  struct Expression {
    const char *name, *text;
  };
  const Expression expressions[] = {
      {"an even number of a", "(b*ab*a)*b*"},
      {"ab again and again", "(ab)*"},
      {"a flip-flop: set (s) more recently than reset (r), n doing nothing", "[srn]*sn*"},
      {"words that contain abc", "[abc]*abc[abc]*"},
      {"binary multiples of 3", "(0|1(01*0)*1)*"},
      {"a's, then b's", "a*b*"},
      {"a length divisible by 3", "([ab]{3})*"},
      {"one more a than a multiple of 4", "b*ab*(ab*ab*ab*ab*)*"},
      {"words that end in ab", "[ab]*ab"},
      {"an a as third last", "[ab]*a[ab]{2}"},
      {"no two b in a row", "(a|ba)*b?"},
      {"balanced brackets at most 3 deep", "(l(l(lr)*r)*r)*"},
      {"an even number of a since the last r", "([abr]*r)?(b*ab*a)*b*"},
      {"a multiple of 3 a's since the last r", "([ar]*r)?(aaa)*"},
  };
  std::vector<Language> languages;
  for (const auto& [name, text] : expressions)
    languages.push_back({name, text, parse_regular_expression(text)});
  languages.push_back({"three cups, two swaps: the ball is under the first", "", cups(false)});
  languages.push_back({"three cups, two swaps and a reset", "", cups(true)});
  return languages;
}

}  // namespace dp::theory
