// From a group, an automaton or an expression to the smallest model that the paper's theorems give.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "theory/constructions/construction.h"
#include "theory/matrix_group.h"

namespace dp::theory {

struct CompileOptions {
  int64_t layers = 0;           // 0: the fewest
  int64_t num_householder = 0;  // n_h; 0: the fewest for these layers
  Architecture architecture = Architecture::kDeltaProduct;
  // What is larger is refused before memory is taken for it.
  int64_t max_states = 20'000;  // of an automaton, or elements of a group
  double max_memory = 4.0e9;    // bytes of the weights
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
/// for groups isomorphic to Z_m or D_m, three or four otherwise. Throws InputError for what no theorem gives: with what is
/// proved to be impossible, and otherwise with what is not known here.
Compiled compile_group(const std::string& group, const std::vector<std::string>& alphabet,
                       const CompileOptions& options);
/// A group that matrices generate, in one layer; the inputs are its generators.
Compiled compile_matrices(const MatrixGroup& group, const std::string& name,
                          const CompileOptions& options);
/// The language of an automaton, which is minimised first: by a cascade, or for RWKV-7 as it is.
Compiled compile_automaton(const Automaton& automaton, const std::string& name,
                           const CompileOptions& options);
Compiled compile_counting(int64_t d, const CompileOptions& options);
Compiled compile_recall(const std::vector<std::string>& alphabet, int64_t d,
                        const CompileOptions& options);

}  // namespace dp::theory
