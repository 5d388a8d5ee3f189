// Deterministic finite automata: what they are, their minimal form, and what kind of maps their symbols are.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dp {

/// A map of the states 0 .. n-1 to themselves: map[q] is where q goes.
using StateMap = std::vector<int32_t>;

bool is_permutation(const StateMap& map);
/// Whether all states go to one.
bool is_reset(const StateMap& map);
/// First `first`, then `then`.
StateMap compose(const StateMap& then, const StateMap& first);

/// Complete: every symbol leads from every state somewhere.
struct Automaton {
  std::vector<std::string> alphabet;     // names of the symbols, all different
  std::vector<std::string> state_names;  // all different
  int32_t start = 0;
  std::vector<bool> accepting;  // [states]
  std::vector<StateMap> moves;  // [symbols]: where each symbol leads from each state

  int32_t num_states() const { return static_cast<int32_t>(accepting.size()); }
  int32_t num_symbols() const { return static_cast<int32_t>(alphabet.size()); }
  int32_t next(int32_t state, int32_t symbol) const {
    return moves[static_cast<size_t>(symbol)][static_cast<size_t>(state)];
  }
  /// The state after a word, from the start.
  int32_t run(std::span<const int32_t> word) const;
  bool accepts(std::span<const int32_t> word) const;
};

/// Throws std::invalid_argument that says what is inconsistent: sizes, targets that are not states,
/// names that occur twice.
void check(const Automaton& automaton);

/// The smallest automaton with the same language, its states reachable and numbered by the first word
/// (shorter first, then by symbols) that leads to them; the start is 0. Names are those of a state merged
/// into each.
Automaton minimised(const Automaton& automaton);

/// What the symbols do: kPermutation if each permutes the states, kPermutationReset if each does that or
/// leads from everywhere to one state, kGeneral otherwise.
enum class AutomatonKind { kPermutation, kPermutationReset, kGeneral };
AutomatonKind classify(const Automaton& automaton);

}  // namespace dp
