// Automata drawn at random, to check the constructions of regular languages on more than chosen examples.
#pragma once
#include <cstdint>

#include "algebra/automaton.h"
#include "algebra/cascade.h"

namespace dp::theory {

struct RandomAutomaton {
  Automaton automaton;  // minimal
  Cascade cascade;
  /// Some level permutes its states, and there are several levels.
  bool permutes_in_cascade = false;
};

/// Number `number` of the automata with this seed: 2 to 6 states and 3 letters, each of which permutes all states, maps
/// them at random, or leads to one. Every second one permutes in a cascade of several levels.
RandomAutomaton draw_automaton(uint64_t seed, int64_t number);

}  // namespace dp::theory
