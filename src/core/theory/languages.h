// Regular languages to show: each needs something else of a model.
#pragma once
#include <string>
#include <vector>

#include "algebra/automaton.h"

namespace dp::theory {

struct Language {
  std::string name;  // for people
  std::string
      expression;  // as parse_regular_expression() has it; empty: it is given by its automaton alone
  Automaton automaton;  // minimal
};

/// Counters, flip-flops, cascades of them, and groups with resets.
std::vector<Language> example_languages();

}  // namespace dp::theory
