// Counting modulo d: the lemma that all constructions with blocks of tokens stand on.
#pragma once
#include <cstdint>
#include <vector>

#include "theory/constructions/construction.h"

namespace dp::theory {

/// How often a symbol came modulo d: one layer with n_h = 2, or two with n_h = 1.
Construction counting(const Problem& problem, int64_t d, int64_t num_householder,
                      Architecture architecture = Architecture::kDeltaProduct);

/// A head of the first layer whose slot is 1 while an even number of `flipping` tokens has been read, and -1
/// otherwise. Here and below the last of the network's inputs is BOS.
Features add_sign(Network& network, Layer& layer, const std::vector<int64_t>& flipping);
/// t mod 2 as a group of two features, BOS being t = 0, by a head of the first layer.
Features add_parity(Network& network, Layer& layer);
/// t mod d as a group of d features, BOS being t = 0, in the first counter_layers() layers of the network.
Features add_counter(Network& network, int64_t d, int64_t num_householder);
/// Two if n_h = 1 and d > 2, one otherwise.
inline int64_t counter_layers(int64_t d, int64_t num_householder) {
  return num_householder == 1 && d > 2 ? 2 : 1;
}

}  // namespace dp::theory
