// Automata as cascades of permutation-reset automata, with any number of factors per token.
#pragma once
#include <cstdint>

#include "algebra/cascade.h"
#include "theory/constructions/construction.h"

namespace dp::theory {

/// One gated layer for each level whose permutations take at most n_h factors; three (four if n_h = 1) for a
/// level that must apply them later, the counters being shared; and a layer between two levels that recalls
/// the state before the symbol. n_h is `num_householder`; 0: so many that every level takes one layer. Throws
/// InputError if a level would have to tell more than kMostWords words apart, or to take more than max_memory bytes.
Construction automaton_by_cascade(const Problem& problem, const Cascade& cascade,
                                  int64_t num_householder = 0, double max_memory = 4e9);

/// Of RWKV-7, which needs no cascade: one layer if n_h is large enough, and at least one less than there are
/// states always is; otherwise three layers, or four if n_h = 1. 0: so many that one layer is enough.
Construction automaton_by_maps(const Problem& problem, int64_t num_householder = 0,
                               double max_memory = 4e9);

/// Words of maps that one level may have to tell apart.
inline constexpr int64_t kMostWords = 200'000;

}  // namespace dp::theory
