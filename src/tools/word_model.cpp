#include "tools/word_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "tools/trained_words.h"

namespace dp::cli {
namespace {

bool is_single_character(const std::string& text) {
  return utf8_count(text) == 1;
}

}  // namespace

std::string list_symbols(const theory::Problem& problem) {
  constexpr size_t kShown = 12;
  const auto& alphabet = problem.automaton.alphabet;
  if (alphabet.size() == 1) return alphabet[0];
  std::string text = alphabet.size() > kShown
                         ? "one of " + std::to_string(alphabet.size()) + " symbols: "
                         : "one of ";
  for (size_t i = 0; i < std::min(alphabet.size(), kShown); ++i)
    text += (i == 0 ? "" : "  ") + alphabet[i];
  return alphabet.size() > kShown ? text + "  ..." : text;
}

theory::Problem find_problem(const std::filesystem::path& directory) {
  if (theory::is_compiled(directory)) return theory::load_problem(directory);
  if (!std::filesystem::exists(directory / "run.json"))
    throw InputError(
        quote(directory.string()) +
        " has neither compiled.json nor run.json, expected a model made by dp compile or dp train");
  return trained_problem(directory);
}

std::unique_ptr<theory::Answerer> open_answerer(const std::filesystem::path& directory,
                                                int threads) {
  if (!runtime::is_supported(read_model_config(directory)))
    return nn_answerer(directory, threads);
  const auto zeros =
      theory::is_compiled(directory) ? runtime::Zeros::kLeaveOut : runtime::Zeros::kMultiply;
  return theory::make_answerer(runtime::Model::open(directory, zeros), threads);
}

WordParser::WordParser(const theory::Problem& problem)
    : problem_(problem),
      characters_(std::ranges::all_of(problem.automaton.alphabet, is_single_character)) {
  const auto& alphabet = problem.automaton.alphabet;
  for (size_t i = 0; i < alphabet.size(); ++i) numbers_[alphabet[i]] = static_cast<int32_t>(i);
}

std::vector<int32_t> WordParser::parse(const std::string& line, const std::string& origin) const {
  std::vector<int32_t> word;
  for (size_t i = 0; i < line.size();) {
    if (line[i] == ' ' || line[i] == '\t' || line[i] == '\r') {
      ++i;
      continue;
    }
    size_t end = i + 1;
    if (characters_) {
      while (end < line.size() && utf8_continues(line[end])) ++end;
    } else {
      int depth = line[i] == '(';
      for (; end < line.size() &&
             (depth > 0 || (line[end] != ' ' && line[end] != '\t' && line[end] != '\r'));
           ++end)
        depth += (line[end] == '(') - (line[end] == ')');
    }
    const std::string symbol = line.substr(i, end - i);
    const auto found = numbers_.find(symbol);
    if (found == numbers_.end())
      throw InputError(origin + ", column " + std::to_string(i + 1) + ": " + quote(symbol) +
                       " is not a symbol of " + problem_.name + ", expected " +
                       list_symbols(problem_));
    word.push_back(found->second);
    i = end;
  }
  return word;
}

}  // namespace dp::cli
