// dp verify: a model against the algebra itself.
#include "theory/verify.h"

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/progress.h"
#include "tools/command.h"
#include "tools/verify_options.h"
#include "tools/word_model.h"

namespace dp::cli {
namespace {

constexpr const char* kVerifyExplanation =
    "Compares the model's answer after every symbol with the group's table or the automaton: on "
    "all words of one\n"
    "length (which begin with all the shorter ones), on random words, and on one long random word. A model that\n"
    "is not exact is measured on all of them: how many words are right at every position, and how many positions.\n"
    "Exit code 1 if any answer is wrong.\n"
    "  ./dp compile group A5 --out models/a5\n"
    "  ./dp verify models/a5 --words all:6 --random 1000x1000 --long 1000000";

struct VerifyArguments {
  std::string model;
  WordOptions words;
  JsonOption json;
  ThreadsOption threads;
};

std::string token_name(const theory::Problem& problem, int64_t token) {
  for (size_t i = 0; i < problem.state_tokens.size(); ++i)
    if (problem.state_tokens[i] == token) return problem.automaton.state_names[i];
  return "token " + std::to_string(token);
}

std::string describe(const theory::WrongAnswer& error, const theory::Problem& problem) {
  std::string text = "first error: position " + std::to_string(error.position) + ", expected " +
                     token_name(problem, error.expected) + ", answered " +
                     token_name(problem, error.answered) + ", after";
  if (static_cast<int64_t>(error.word.size()) < error.position) text += " ...";
  for (const int32_t symbol : error.word)
    text += " " + problem.automaton.alphabet[static_cast<size_t>(symbol)];
  return error.word.empty() ? text + " nothing" : text;
}

std::string describe(const theory::WordCount& count) {
  const auto share = [](int64_t right, int64_t all) {
    if (right == all) return "all " + std::to_string(all);
    char text[96];
    std::snprintf(text, sizeof text, "%ld of %ld (%.2f %%)", right, all,
                  100 * static_cast<double>(right) / static_cast<double>(all));
    return std::string(text);
  };
  return share(count.right_words, count.words) + " words right, " +
         share(count.right_positions, count.positions) + " positions";
}

nlohmann::ordered_json count_json(int64_t length, const theory::WordCount& count) {
  return {{"length", length},
          {"words", count.words},
          {"right_words", count.right_words},
          {"positions", count.positions},
          {"right_positions", count.right_positions}};
}

int verify(VerifyArguments& arguments) {
  arguments.words.parse();
  theory::VerifyOptions& options = arguments.words.options;
  arguments.json.check();
  const theory::Problem problem = find_problem(arguments.model);
  const auto model = open_answerer(arguments.model, arguments.threads.count());
  theory::VerifyResult result;
  {
    std::optional<Progress> progress;
    std::string shown;
    options.progress = [&](const std::string& what, double share) {
      if (what != shown) progress.emplace(what, 1000), shown = what;
      progress->update(static_cast<int64_t>(share * 1000), "");
    };
    result = theory::verify(*model, problem, options);
  }

  std::printf("%s, weights in %s\n", problem.name.c_str(), model->config().dtype.c_str());
  if (options.all_words_up_to > 0)
    std::printf("all words of %ld symbols: %s\n", result.words_length,
                describe(result.all_words).c_str());
  if (options.random_words > 0)
    std::printf("random words of %ld symbols: %s\n", options.random_length,
                describe(result.random_words).c_str());
  if (options.long_length > 0)
    std::printf("one random word: the first %ld of %ld positions right\n", result.long_length,
                options.long_length);
  std::printf("%s\n",
              result.first_error ? describe(*result.first_error, problem).c_str() : "no error");
  nlohmann::ordered_json json = {
      {"problem", problem.name},
      {"dtype", model->config().dtype},
      {"all_words", count_json(result.words_length, result.all_words)},
      {"random", count_json(options.random_length, result.random_words)},
      {"long", {{"length", options.long_length}, {"right", result.long_length}}},
      {"exact", !result.first_error}};
  if (result.first_error) json["first_error"] = describe(*result.first_error, problem);
  arguments.json.write(json);
  return result.first_error ? 1 : 0;
}

}  // namespace

Run add_verify(CLI::App& app) {
  app.footer(kVerifyExplanation);
  auto arguments = std::make_shared<VerifyArguments>();
  app.add_option("model", arguments->model, "directory of a compiled or trained model")
      ->type_name("DIR")
      ->required();
  arguments->words.add_to(app);
  arguments->json.add_to(app);
  arguments->threads.add_to(app);
  return [arguments] { return verify(*arguments); };
}

}  // namespace dp::cli
