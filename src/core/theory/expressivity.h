// The paper's table of what which model can express, each entry as models to build and to check.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "theory/compile.h"

namespace dp::theory {

/// One model of an entry.
struct Example {
  std::string name;  // "S5, n_h = 4"
  std::function<Compiled()> compile;
};

struct Expressed {
  std::string layers;  // "1", "2", "3", "4", "f(|Q|)"
  std::string model;   // the column of the table: "DeltaProduct, n_h > 1"
  std::string claim;
  std::string source;  // the paper's statement, or that of another paper that it cites
  std::vector<Example> examples;
};

/// The entries of the paper's table of expressivity, row by row, and no others.
std::vector<Expressed> expressivity_table();

/// What the paper proves besides: the lemmas that the table's deeper rows stand on, and products of RWKV-7's transitions.
std::vector<Expressed> further_statements();

}  // namespace dp::theory
