// parse_regular_expression: an expression, or an alphabet, a newline and an expression.
#include "algebra/regular_expression.h"

#include "base/error.h"
#include "target.h"

DP_FUZZ_TARGET(regular_expression, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  std::string_view text(reinterpret_cast<const char*>(data), size), alphabet;
  if (const size_t end = text.find('\n'); end != std::string_view::npos) {
    alphabet = text.substr(0, end);
    text.remove_prefix(end + 1);
  }
  dp::Automaton automaton;
  try {
    automaton = dp::parse_regular_expression(text, alphabet);
  } catch (const dp::InputError&) {
    return 0;
  }
  dp::check(automaton);
  require(automaton.num_symbols() > 0, "there is a symbol");
  const dp::Automaton again = dp::minimised(automaton);
  require(again.moves == automaton.moves && again.accepting == automaton.accepting,
          "the automaton is minimal");
  return 0;
}
