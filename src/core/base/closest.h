// Guessing what a misspelt word was meant to be.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace dp {

/// How many letters must be inserted, removed, replaced or swapped with their neighbour to turn a
/// into b.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate most like `word`, or an empty string if none is alike enough to be what was meant.
std::string closest(std::string_view word, std::span<const std::string> candidates);

}  // namespace dp
