// From a group, an automaton or an expression to the smallest model that the paper's theorems give.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "theory/construction.h"

namespace dp::theory {

struct CompileOptions {
  int64_t layers = 0;           // 0: the fewest
  int64_t num_householder = 0;  // n_h; 0: the fewest for these layers
};

/// A model and what it solves.
struct Compiled {
  Problem problem;
  Construction construction;

  Weights weights(bool bfloat16 = false) const {
    return construction.network.build(problem.bos, {construction.num_householder, bfloat16});
  }
};

/// The word problem of a group, of inputs from `alphabet` (empty: all elements). One layer if n_h allows, two
/// for Z_m and D_m, three or four otherwise. Throws InputError with the reason for what no theorem gives.
Compiled compile_group(const std::string& group, const std::vector<std::string>& alphabet,
                       const CompileOptions& options);
/// The language of an automaton, which is minimised first.
Compiled compile_automaton(const Automaton& automaton, const std::string& name,
                           const CompileOptions& options);
Compiled compile_counting(int64_t d, const CompileOptions& options);
Compiled compile_recall(const std::vector<std::string>& alphabet, int64_t d,
                        const CompileOptions& options);

}  // namespace dp::theory
