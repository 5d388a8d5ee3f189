// Numbers that symbols add to: what a level of a cascade can count.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "algebra/automaton.h"

namespace dp {

/// Ways to number the states, -1 for those where the number says nothing: by how often a symbol can still occur before
/// states repeat, by the length of words, and by how often a symbol occurs in words. Not numbered are states that wait,
/// for good or for another symbol. Whether all symbols add up is not checked.
std::vector<std::vector<int32_t>> countings(const Automaton& automaton);

/// What a symbol does to a counter modulo `size` that is at number[q] in each of these states q; states with the number
/// -1 do not care. None if that is neither a constant to add nor one number to lead to.
std::optional<StateMap> counter_map(const StateMap& map, const std::vector<int32_t>& states,
                                    const std::vector<int32_t>& number, size_t size);

}  // namespace dp
