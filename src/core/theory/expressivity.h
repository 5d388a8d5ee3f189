// The paper's table of what which model can express, each entry as models to build and to check.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "theory/compile.h"
#include "theory/rwkv7.h"

namespace dp::theory {

/// One model of an entry: a compiled one, or an automaton for the recurrence of RWKV-7 matrices.
struct Example {
  std::string name;                   // "S5, n_h = 4"
  std::function<Compiled()> compile;  // empty: RWKV-7
  std::function<Automaton()> rwkv7;
};

struct Expressed {
  std::string layers;  // "1", "2", "3", "4", "f(|Q|)"
  std::string model;   // "DeltaProduct, n_h > 1"
  std::string claim;
  std::vector<Example> examples;
};

/// From one layer to many.
std::vector<Expressed> expressivity_table();

}  // namespace dp::theory
