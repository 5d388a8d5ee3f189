// Text for people: quoting what came from outside, and guessing what was meant.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace dp {

/// 'text' for an error message: control characters become '?', and a long text is cut short.
std::string quote(std::string_view text);

/// Quoted for a POSIX shell: it's -> 'it'\''s'; words without special characters stay as they are.
std::string shell_quote(std::string_view word);

/// How many letters must be inserted, removed, replaced or swapped with their neighbour to turn a
/// into b.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate most like `word`, or an empty string if none is alike enough to be what was meant.
std::string closest(std::string_view word, std::span<const std::string> candidates);

}  // namespace dp
