// What a model on disk solves: one of dp compile's, or one trained on a word problem.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "theory/problem.h"

namespace dp::cli {

/// Throws InputError if the directory holds neither.
theory::Problem problem_of(const std::filesystem::path& directory);

/// The symbols of a line: separated by spaces, except within parentheses; if all symbols are single characters,
/// spaces may be left out. Throws InputError that begins with `origin` and names the column.
std::vector<int32_t> parse_word(const theory::Problem& problem, const std::string& line,
                                const std::string& origin);

}  // namespace dp::cli
