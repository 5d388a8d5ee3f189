// Automata and words for tests.
#pragma once
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "algebra/automaton.h"

namespace dp {

using Word = std::vector<int32_t>;

/// Calls `use` with every word of up to `longest` symbols, shorter ones first.
inline void for_each_word(int32_t num_symbols, size_t longest,
                          const std::function<void(const Word&)>& use) {
  for (size_t length = 0; length <= longest; ++length) {
    Word word(length, 0);
    bool more = true;
    while (more) {
      use(word);
      more = false;
      for (size_t i = length; i-- > 0 && !more;) {
        more = ++word[i] < num_symbols;
        if (!more) word[i] = 0;
      }
    }
  }
}

inline int32_t below(int32_t limit, std::mt19937& rng) {
  return static_cast<int32_t>(rng() % static_cast<uint32_t>(limit));
}

inline Word random_word(int32_t num_symbols, size_t length, std::mt19937& rng) {
  Word word(length);
  for (int32_t& symbol : word) symbol = below(num_symbols, rng);
  return word;
}

/// States and symbols are named by numbers; any state may be the start, some may be out of reach.
inline Automaton random_automaton(int32_t num_states, int32_t num_symbols, std::mt19937& rng) {
  Automaton automaton;
  automaton.start = below(num_states, rng);
  for (int32_t q = 0; q < num_states; ++q) {
    automaton.state_names.push_back(std::to_string(q));
    automaton.accepting.push_back(below(2, rng) == 0);
  }
  for (int32_t symbol = 0; symbol < num_symbols; ++symbol) {
    automaton.alphabet.push_back(std::to_string(symbol));
    automaton.moves.push_back(random_word(num_states, static_cast<size_t>(num_states), rng));
  }
  return automaton;
}

/// From tables of moves, one per symbol; the symbols are a, b, ...
inline Automaton make_automaton(std::vector<StateMap> moves, std::vector<bool> accepting) {
  Automaton automaton;
  automaton.accepting = std::move(accepting);
  for (size_t q = 0; q < automaton.accepting.size(); ++q)
    automaton.state_names.push_back(std::to_string(q));
  for (size_t symbol = 0; symbol < moves.size(); ++symbol)
    automaton.alphabet.emplace_back(1, static_cast<char>('a' + symbol));
  automaton.moves = std::move(moves);
  return automaton;
}

}  // namespace dp
