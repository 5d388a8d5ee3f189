// Numbers that symbols add to: what a level of a cascade can count.
#pragma once
#include <cstdint>
#include <vector>

#include "algebra/automaton.h"

namespace dp {

/// Ways to number the states that words can leave for good, -1 for the others: along a symbol that leads through all of
/// them, by the length of words, and by how often a symbol occurs in words. Whether all symbols add up is not
/// checked.
std::vector<std::vector<int32_t>> countings(const Automaton& automaton);

}  // namespace dp
