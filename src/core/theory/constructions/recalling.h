// Recalling the last tokens: a state of d rows that are overwritten in turn.
#pragma once
#include <cstdint>
#include <vector>

#include "theory/constructions/construction.h"

namespace dp::theory {

/// The last d tokens, or any function of them.
Construction recall(const Problem& problem, int64_t d, int64_t num_householder,
                    Architecture architecture = Architecture::kDeltaProduct);

/// A head of `layer` whose slots recall which of `what`, features of one group, was 1 `age` tokens ago: rows of
/// its state are overwritten in turn. `count` is t mod d, and age < d.
Features add_recall(Network& network, Layer& layer, const std::vector<int64_t>& what,
                    const Features& count, int64_t age);

/// A feature, and what is remembered of it.
struct CodedFeature {
  int64_t feature, code;  // code in 0 .. codes-1; several features may share one
};
/// Blocks are the tokens 1 .. m, m+1 .. 2m, and so on, and `count` is t mod 2m. A head of `layer` whose slots
/// recall the code of the token at `place`, 1 .. m, of the current block or of the block before it. Before the
/// first block there is BOS alone, at place m.
Features add_place_recall(Network& network, Layer& layer, const std::vector<CodedFeature>& what,
                          int64_t codes, const Features& count, int64_t place, bool previous);

}  // namespace dp::theory
