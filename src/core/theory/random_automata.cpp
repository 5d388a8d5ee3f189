#include "theory/random_automata.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace dp::theory {
namespace {

constexpr int32_t kMostRandomStates = 6, kRandomLetters = 3;

int32_t draw_below(int32_t limit, std::mt19937_64& random) {
  return static_cast<int32_t>(random() % static_cast<uint64_t>(limit));
}

StateMap draw_map(int32_t n, std::mt19937_64& random) {
  StateMap map(static_cast<size_t>(n));
  std::iota(map.begin(), map.end(), 0);
  const int32_t kind = draw_below(10, random);
  if (kind < 4) {  // a permutation; std::shuffle differs between libraries
    for (size_t i = map.size(); i-- > 1;)
      std::swap(map[i], map[static_cast<size_t>(draw_below(static_cast<int32_t>(i) + 1, random))]);
  } else if (kind < 9) {
    for (int32_t& target : map) target = draw_below(n, random);
  } else {
    std::ranges::fill(map, draw_below(n, random));
  }
  return map;
}

Automaton draw_any(std::mt19937_64& random) {
  Automaton automaton;
  const int32_t n = 2 + draw_below(kMostRandomStates - 1, random);
  for (int32_t q = 0; q < n; ++q) {
    automaton.state_names.push_back(std::to_string(q));
    automaton.accepting.push_back(draw_below(2, random) == 0);
  }
  automaton.start = draw_below(n, random);
  for (int32_t x = 0; x < kRandomLetters; ++x) {
    automaton.alphabet.emplace_back(1, static_cast<char>('a' + x));
    automaton.moves.push_back(draw_map(n, random));
  }
  return minimised(automaton);
}

bool level_permutes(const Cascade::Level& level) {
  return std::ranges::any_of(level.maps, [](const StateMap& map) {
    return is_permutation(map) && !std::ranges::is_sorted(map);
  });
}

}  // namespace

RandomAutomaton draw_automaton(uint64_t seed, int64_t number) {
  std::mt19937_64 random(seed * 1'000'003 + static_cast<uint64_t>(number));
  for (;;) {
    RandomAutomaton drawn;
    drawn.automaton = draw_any(random);
    if (drawn.automaton.num_states() < 2) continue;
    drawn.cascade = krohn_rhodes(drawn.automaton);
    drawn.permutes_in_cascade = drawn.cascade.levels.size() > 1 &&
                                std::ranges::any_of(drawn.cascade.levels, level_permutes);
    if (number % 2 == 0 || drawn.permutes_in_cascade) return drawn;
  }
}

}  // namespace dp::theory
