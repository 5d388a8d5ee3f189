// The command that made a compiled model, found from what the model solves and its size.
#include <algorithm>

#include "algebra/regular_expression.h"
#include "base/error.h"
#include "report/compiled_page.h"
#include "report/run.h"

namespace dp::report {
namespace {

using theory::Problem;

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

bool same_moves(const Automaton& a, const Automaton& b) {
  return a.alphabet == b.alphabet && a.moves == b.moves && a.accepting == b.accepting &&
         a.start == b.start;
}

// A language is known by its name: an expression if that has the same automaton, a file otherwise.
std::string language(const Problem& problem) {
  const Automaton& automaton = problem.automaton;
  const std::string letters = joined(automaton.alphabet, "");
  for (const std::string& alphabet : {std::string(), letters}) try {
      if (same_moves(parse_regular_expression(problem.name, alphabet), automaton))
        return "regex " + shell_quote(problem.name) +
               (alphabet.empty() ? "" : " --alphabet " + shell_quote(alphabet));
    } catch (const InputError&) {
    }
  return "dfa " + shell_quote(problem.name);
}

}  // namespace

std::string compile_command(const CompiledModel& compiled) {
  const Problem& problem = compiled.problem;
  const Automaton& automaton = problem.automaton;
  const ModelConfig& config = compiled.model.config();
  std::string command = "./dp compile ";
  if (problem.kind == Problem::Kind::kGroup) {
    command += "group " + shell_quote(problem.group);
    std::vector<std::string> all = automaton.state_names, used = automaton.alphabet;
    std::ranges::sort(all), std::ranges::sort(used);
    if (all != used) command += " --generators " + shell_quote(joined(automaton.alphabet, ","));
  } else if (problem.kind == Problem::Kind::kLanguage) {
    command += language(problem);
  } else if (problem.name.starts_with("counting")) {
    command += "count " + std::to_string(automaton.num_states());
  } else {
    // "the last 3 symbols"
    const size_t digit = problem.name.find_first_of("0123456789");
    const std::string number =
        digit == std::string::npos
            ? "2"
            : problem.name.substr(digit,
                                  problem.name.find_first_not_of("0123456789", digit) - digit);
    command += "recall " + number + " --alphabet " + shell_quote(joined(automaton.alphabet, ""));
  }
  command += " --layers " + std::to_string(config.num_hidden_layers) + " --num-householder " +
             std::to_string(config.num_householder);
  if (config.dtype == "bfloat16") command += " --dtype bf16";
  return command + " --out " + shell_quote(compiled.directory);
}

}  // namespace dp::report
