// Any group of permutations with fewer factors per token than its elements take: they are applied later.
#pragma once
#include <cstdint>

#include "algebra/group.h"
#include "theory/constructions/construction.h"

namespace dp::theory {

/// Three layers for n_h > 1 and four for n_h = 1: while a block of m tokens is read, the product of the block
/// before it is applied, a factor per token; what is not yet in the state is added by the query. The third
/// last layer counts, the second last recalls the last 2m tokens and looks up what to do. Throws InputError if
/// the table would have more than kMostTableWords entries.
Construction group_by_delayed_factors(const Problem& problem, const FiniteGroup& group,
                                      int64_t num_householder,
                                      Architecture architecture = Architecture::kDeltaProduct);

inline constexpr double kMostTableWords = 20000;

}  // namespace dp::theory
