// Levels of a cascade that permute many states, as several levels of fewer.
#pragma once
#include "algebra/cascade.h"

namespace dp {

/// A level of more than `largest` states whose permutations keep a system of blocks (10,000 states in a cycle, by
/// their numbers modulo 16) becomes two: one for the block, and one for the place in it. As often as that is
/// possible; levels without blocks stay as they are.
void split_large_levels(Cascade& cascade, int32_t largest);

}  // namespace dp
