// parse_automaton, and back; of small automata also the cascade.
#include "theory/automaton_file.h"

#include "algebra/cascade.h"
#include "base/error.h"
#include "target.h"

DP_FUZZ_TARGET(automaton_file, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  dp::Automaton automaton;
  try {
    automaton = dp::parse_automaton({reinterpret_cast<const char*>(data), size}, "f");
  } catch (const dp::InputError&) {
    return 0;
  }
  dp::check(automaton);
  const dp::Automaton again = dp::parse_automaton(dp::to_json(automaton), "f");
  require(again.alphabet == automaton.alphabet && again.state_names == automaton.state_names &&
              again.start == automaton.start && again.accepting == automaton.accepting &&
              again.moves == automaton.moves,
          "what is written is read back");
  const dp::Automaton minimal = dp::minimised(automaton);
  require(minimal.num_states() <= automaton.num_states(), "minimal automata are no larger");
  constexpr int32_t kMostStates = 6;
  if (automaton.num_states() > kMostStates) return 0;
  const dp::Cascade cascade = dp::krohn_rhodes(automaton);
  std::vector<int32_t> states = cascade.start();
  int32_t state = automaton.start, minimal_state = minimal.start;
  for (size_t i = 0; i < size; ++i) {  // the input once more, as a word
    require(cascade.decode(states) == state, "the cascade follows the automaton");
    require(minimal.accepting[static_cast<size_t>(minimal_state)] ==
                automaton.accepting[static_cast<size_t>(state)],
            "the minimal automaton accepts the same");
    const int32_t symbol = data[i] % automaton.num_symbols();
    cascade.step(states, symbol);
    state = automaton.next(state, symbol);
    minimal_state = minimal.next(minimal_state, symbol);
  }
  return 0;
}
