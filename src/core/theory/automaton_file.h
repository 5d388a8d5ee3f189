// Automata as JSON files.
#pragma once
#include <filesystem>
#include <string>

#include "algebra/automaton.h"

namespace dp {

/// Reads
///   {"alphabet": ["a", "b"], "states": ["even", "odd"], "start": "even", "accepting": ["even"],
///    "transitions": {"even": {"a": "odd", "b": "even"}, "odd": {"a": "even", "b": "odd"}}}
/// Every state needs a transition for every symbol, unless a field "sink" names the state that all others
/// lead to. Throws InputError that names the file, and the field or the line and column; other fields are
/// refused.
Automaton parse_automaton(const std::string& json_text, const std::string& file);
Automaton read_automaton(const std::filesystem::path& path);

/// What parse_automaton() reads.
std::string to_json(const Automaton& automaton);

}  // namespace dp
