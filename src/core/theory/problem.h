// What a compiled model has to solve, exactly: an automaton whose states are the answers.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "algebra/automaton.h"
#include "algebra/group.h"

namespace dp::theory {

/// After BOS and any symbols, the answer is the automaton's state: for a group, the product of all elements so
/// far. A model of it reads BOS, then a token for each symbol, and gives the token of the answer the largest
/// logit at each.
struct Problem {
  enum class Kind {
    kGroup,     // symbols and states are elements; tokens as in the task word-problem
    kLanguage,  // states accept or not
    kStates,    // what matters is the state
  };

  Kind kind = Kind::kStates;
  std::string name;   // "S5", or the expression; for people
  std::string group;  // of kGroup: as FiniteGroup::parse has it
  Automaton automaton;
  std::vector<int64_t> symbol_tokens, state_tokens;
  int64_t bos = 0, vocab_size = 0;
};

/// By its name, or as cycles of points: "(1 2 3)". Throws InputError that begins with `origin`.
int32_t find_element(const FiniteGroup& group, const std::string& name, const std::string& origin);

/// The word problem of a group over some of its elements.
Problem group_problem(const FiniteGroup& group, const std::vector<int32_t>& alphabet);
/// Symbols are the tokens 0 .. s-1, BOS is s, and states follow it.
Problem automaton_problem(Automaton automaton, Problem::Kind kind, std::string name);

/// A single symbol, and how often it came modulo d.
Automaton counting_automaton(int64_t d);
/// The last d symbols, or all while there are fewer. Throws InputError if there are more than 5000 of these.
Automaton recall_automaton(const std::vector<std::string>& alphabet, int64_t d);

/// Beside a model's config.json.
inline constexpr const char* kProblemFile = "compiled.json";
/// Writes that file. `theorem` says what the model was built by, `command` the command that did.
void save_problem(const Problem& problem, const std::string& theorem, const std::string& command,
                  const std::filesystem::path& directory);
/// Whether there is such a file.
bool is_compiled(const std::filesystem::path& directory);
/// Throws InputError that names the file and what is wrong with it.
Problem load_problem(const std::filesystem::path& directory);

}  // namespace dp::theory
