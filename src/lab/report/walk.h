// A compiled model's answers after each symbol of a word, beside the automaton's states.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "theory/answerer.h"
#include "theory/problem.h"

namespace dp::report {

/// A word to show: for a group or many states a random one, otherwise one that takes as many edges of the graph as
/// possible, in an order that leaves traps for last.
std::vector<int32_t> example_word(const theory::Problem& problem);

struct Walk {
  std::vector<int32_t> word;     // symbols
  std::vector<int32_t> states;   // of the automaton: before the word and after each symbol
  std::vector<int32_t> answers;  // the states that the model says; -1 for a token that is none
};
Walk walk_word(theory::Answerer& model, const theory::Problem& problem,
               const std::vector<int32_t>& word);

}  // namespace dp::report
