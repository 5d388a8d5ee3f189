#include "tools/problem_of.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "train/run.h"

namespace dp::cli {
namespace {

bool is_single_character(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }) == 1;
}

std::string some_symbols(const theory::Problem& problem) {
  std::string text;
  const auto& alphabet = problem.automaton.alphabet;
  for (size_t i = 0; i < std::min<size_t>(alphabet.size(), 4); ++i)
    text += (i == 0 ? "" : ", ") + quote(alphabet[i]);
  return alphabet.size() > 4 ? text + ", ..." : text;
}

}  // namespace

theory::Problem problem_of(const std::filesystem::path& directory) {
  if (theory::is_compiled(directory)) return theory::load_problem(directory);
  if (!std::filesystem::exists(directory / "run.json"))
    throw InputError(
        quote(directory.string()) +
        " has neither compiled.json nor run.json: expected a model of dp compile or dp train");
  const RunConfig run = read_run_config(directory);
  const auto* word = std::get_if<WordProblemOptions>(&run.task);
  if (!word)
    throw InputError(quote(directory.string()) + " is a run of " + task_name(run.task) +
                     ": expected one of a word problem, or a compiled model");
  if (word->tokens_per_element != 1)
    throw InputError(quote(directory.string()) +
                     " spreads elements over several tokens, which is not supported here");
  const WordProblem task(*word);
  return theory::group_problem(task.group(), {task.alphabet().begin(), task.alphabet().end()});
}

std::vector<int32_t> parse_word(const theory::Problem& problem, const std::string& line,
                                const std::string& origin) {
  const auto& alphabet = problem.automaton.alphabet;
  std::map<std::string, int32_t> numbers;
  for (size_t i = 0; i < alphabet.size(); ++i) numbers[alphabet[i]] = static_cast<int32_t>(i);
  const bool characters = std::ranges::all_of(alphabet, is_single_character);

  std::vector<int32_t> word;
  for (size_t i = 0; i < line.size();) {
    if (line[i] == ' ' || line[i] == '\t' || line[i] == '\r') {
      ++i;
      continue;
    }
    size_t end = i + 1;
    if (characters) {
      while (end < line.size() && (line[end] & 0xC0) == 0x80) ++end;
    } else {
      int depth = line[i] == '(';
      for (; end < line.size() &&
             (depth > 0 || (line[end] != ' ' && line[end] != '\t' && line[end] != '\r'));
           ++end)
        depth += (line[end] == '(') - (line[end] == ')');
    }
    const std::string symbol = line.substr(i, end - i);
    const auto found = numbers.find(symbol);
    if (found == numbers.end())
      throw InputError(origin + ", column " + std::to_string(i + 1) + ": " + quote(symbol) +
                       " is no symbol of " + problem.name + ", which reads " +
                       some_symbols(problem));
    word.push_back(found->second);
    i = end;
  }
  return word;
}

}  // namespace dp::cli
