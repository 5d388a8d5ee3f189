// Krohn and Rhodes: any automaton as a cascade of permutation-reset automata.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "algebra/automaton.h"

namespace dp {

/// Levels of permutation-reset automata. Level i reads the symbol together with the states of the levels
/// 0 .. i-1 as they were before that symbol; the states of all levels together tell the automaton's state.
///
/// The states of the levels before level i make a prefix, numbered in mixed radix:
/// ((s_0 * size_1 + s_1) * size_2 + s_2) ..., so that level 0 has the single prefix 0.
struct Cascade {
  struct Level {
    int32_t size = 1, start = 0;
    std::vector<StateMap> maps;  // all different, each a permutation or a reset of 0 .. size-1
    std::vector<std::vector<int32_t>>
        action;  // [prefix][symbol]: which of maps; -1: the prefix never occurs
  };
  std::vector<Level> levels;
  std::vector<int32_t> state;  // [prefix of full length]: the automaton's state; -1: never occurs

  /// The states of all levels at the start.
  std::vector<int32_t> start() const;
  /// The states of all levels after one more symbol.
  void step(std::vector<int32_t>& states, int32_t symbol) const;
  /// The automaton's state that the states of all levels stand for.
  int32_t decode(std::span<const int32_t> states) const;
};

/// Prefers resets and identities, then few levels whose permutations are products of few transpositions,
/// then few prefixes. If the transition monoid is aperiodic, all maps are resets and identities, as long
/// as that stays within 4096 prefixes or no level that counts does with fewer. Levels of more than 8 states are split
/// by blocks of states where their permutations have some. States that no word leads to are left out; an automaton of one state has
/// no levels.
/// Throws InputError if the prefixes would be more than a million, or take as much work.
Cascade krohn_rhodes(const Automaton& automaton);

}  // namespace dp
