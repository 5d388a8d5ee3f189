// dp theory-automata: random automata as models, at their smallest n_h and at n_h = 1.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/timer.h"
#include "theory/compile.h"
#include "theory/random_automata.h"
#include "theory/verify.h"
#include "tools/command.h"
#include "tools/verify_options.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

struct AutomataOptions {
  int64_t first = 0, count = 20;
  uint64_t automata_seed = 1;
  WordOptions words{.words = "all:7", .random = "20x200", .options = {}};
  JsonOption json;
  ThreadsOption threads;
};

ordered_json check_automaton(const Automaton& automaton, int64_t num_householder,
                             const AutomataOptions& options) {
  const Timer timer;
  const theory::Compiled compiled =
      theory::compile_automaton(automaton, "a random automaton", {0, num_householder});
  const theory::Weights weights = compiled.weights();
  const auto model = theory::make_answerer(weights.model(), options.threads.count());
  const theory::VerifyResult result =
      theory::verify(*model, compiled.problem, options.words.options);
  return {{"num_householder", weights.config.num_householder},
          {"layers", weights.config.num_hidden_layers},
          {"parameters", weights.parameters()},
          {"detail", compiled.construction.detail},
          {"exact", !result.first_error},
          {"all_words", {{"length", result.words_length}, {"words", result.all_words.words}}},
          {"random_words", result.random_words.words},
          {"long", {{"length", options.words.options.long_length}, {"right", result.long_length}}},
          {"positions", result.all_words.right_positions + result.random_words.right_positions +
                            result.long_length},
          {"seconds", timer.seconds()}};
}

int run_automata(AutomataOptions& options) {
  options.words.parse();
  options.json.check();
  auto rows = ordered_json::array();
  int64_t models = 0, wrong = 0, cascades = 0, delayed = 0, positions = 0;
  for (int64_t i = options.first; i < options.first + options.count; ++i) {
    const theory::RandomAutomaton drawn = theory::draw_automaton(options.automata_seed, i);
    cascades += drawn.permutes_in_cascade;
    ordered_json row = {{"number", i},
                        {"states", drawn.automaton.num_states()},
                        {"levels", drawn.cascade.levels.size()},
                        {"permutes_in_cascade", drawn.permutes_in_cascade},
                        {"models", ordered_json::array()}};
    std::string text;
    std::set<int64_t> done;
    for (const int64_t n : {int64_t{0}, int64_t{1}}) {
      ordered_json model = check_automaton(drawn.automaton, n, options);
      const auto factors = model["num_householder"].get<int64_t>();
      if (!done.insert(factors).second) break;  // the smallest is 1
      ++models, wrong += !model["exact"].get<bool>(),
          positions += model["positions"].get<int64_t>();
      delayed += model["detail"].get<std::string>().find("blocks") != std::string::npos;
      text += (text.empty() ? "" : ", ") + std::string(model["exact"].get<bool>() ? "✓" : "✗") +
              " n_h = " + std::to_string(factors) + " in " + model["layers"].dump() + " layers";
      row["models"].push_back(std::move(model));
      if (factors == 1) break;
    }
    std::printf("%4ld  %d states, %zu levels: %s\n", i, drawn.automaton.num_states(),
                drawn.cascade.levels.size(), text.c_str());
    std::fflush(stdout);
    rows.push_back(std::move(row));
  }
  std::printf(
      "\n%ld automata, %ld of them with a level that permutes in a cascade of several; %ld models, "
      "%ld of them with delayed factors, %ld answers compared: %s\n",
      options.count, cascades, models, delayed, positions,
      wrong == 0 ? "no error" : (std::to_string(wrong) + " models are wrong").c_str());
  options.json.write({{"first", options.first},
                      {"automata", options.count},
                      {"seed", options.automata_seed},
                      {"permuting_in_cascade", cascades},
                      {"models", models},
                      {"delayed", delayed},
                      {"wrong", wrong},
                      {"positions", positions},
                      {"rows", std::move(rows)}});
  return wrong == 0 ? 0 : 1;
}

}  // namespace

Run add_theory_automata(CLI::App& app) {
  app.footer(
      "Automata of up to 6 states and 3 letters, half of them with a level that permutes inside a "
      "cascade of "
      "several levels, each\n"
      "compiled at its smallest n_h and at n_h = 1 and compared with the automaton after every "
      "symbol.\n"
      "  ./dp theory-automata --count 300 --words all:7 --long 1000000 --json automata.json   # an "
      "hour");
  auto options = std::make_shared<AutomataOptions>();
  options->words.options.long_length = 0;
  app.add_option("--first", options->first, "number of the first automaton")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--count", options->count, "automata")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--automata-seed", options->automata_seed, "which automata are drawn")
      ->capture_default_str();
  options->words.add_to(app);
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return run_automata(*options); };
}

}  // namespace dp::cli
