// A word walked: what a compiled model answers after each symbol, beside the automaton's states.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "nn/language_model.h"
#include "theory/problem.h"

namespace dp::report {

/// A word to show. For a group or many states it is random. Otherwise it takes as many edges of the graph as
/// possible, those first after which most states can still be reached.
std::vector<int32_t> example_word(const theory::Problem& problem);

struct Walk {
  std::vector<int32_t> word;     // symbols
  std::vector<int32_t> states;   // of the automaton: before the word and after each symbol
  std::vector<int32_t> answers;  // the states that the model says; -1 for a token that is none

  bool right() const { return states == answers; }
};
Walk walk_word(const LanguageModel& model, const theory::Problem& problem,
               const std::vector<int32_t>& word);

/// Symbols and states in a row, with a slider and a button that web/page.js connects to them and to a graph
/// within the same element of class "walk".
std::string walk_html(const Walk& walk, const theory::Problem& problem);

/// The word as `dp predict` reads it.
std::string word_text(const std::vector<int32_t>& word, const theory::Problem& problem);

}  // namespace dp::report
