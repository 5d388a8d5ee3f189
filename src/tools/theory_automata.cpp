// dp theory-automata: random automata as models, at their smallest n_h and at n_h = 1.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

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
  bool resume = false;
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

ordered_json check_drawn(int64_t number, const AutomataOptions& options) {
  const theory::RandomAutomaton drawn = theory::draw_automaton(options.automata_seed, number);
  ordered_json row = {{"number", number},
                      {"states", drawn.automaton.num_states()},
                      {"levels", drawn.cascade.levels.size()},
                      {"permutes_in_cascade", drawn.permutes_in_cascade},
                      {"models", ordered_json::array()}};
  for (const int64_t n : {int64_t{0}, int64_t{1}}) {
    row["models"].push_back(check_automaton(drawn.automaton, n, options));
    if (row["models"].back()["num_householder"] == 1) break;
  }
  return row;
}

void print_row(const ordered_json& row) {
  std::string text;
  for (const ordered_json& model : row["models"])
    text += (text.empty() ? "" : ", ") + std::string(model["exact"].get<bool>() ? "✓" : "✗") +
            " n_h = " + model["num_householder"].dump() + " in " + model["layers"].dump() +
            " layers";
  std::printf("%4ld  %d states, %d levels: %s\n", row["number"].get<int64_t>(),
              row["states"].get<int>(), row["levels"].get<int>(), text.c_str());
  std::fflush(stdout);
}

struct AutomataCounts {
  int64_t automata = 0, models = 0, wrong = 0, cascades = 0, delayed = 0, positions = 0;

  explicit AutomataCounts(const ordered_json& rows) {
    for (const ordered_json& row : rows) {
      ++automata, cascades += row["permutes_in_cascade"].get<bool>();
      for (const ordered_json& model : row["models"]) {
        ++models, wrong += !model["exact"].get<bool>();
        positions += model["positions"].get<int64_t>();
        delayed += model["detail"].get<std::string>().find("blocks") != std::string::npos;
      }
    }
  }
};

ordered_json automata_json(const AutomataOptions& options, const ordered_json& rows) {
  const AutomataCounts counts(rows);
  return {{"first", options.first},
          {"automata", counts.automata},
          {"automata_seed", options.automata_seed},
          {"words", options.words.settings()},
          {"permuting_in_cascade", counts.cascades},
          {"models", counts.models},
          {"delayed", counts.delayed},
          {"wrong", counts.wrong},
          {"positions", counts.positions},
          {"rows", rows}};
}

int run_automata(AutomataOptions& options) {
  options.words.parse();
  options.json.check();
  ordered_json rows = ordered_json::array();
  if (options.resume)
    rows = stored_rows(options.json,
                       {{"first", options.first},
                        {"automata_seed", options.automata_seed},
                        {"words", options.words.settings()}},
                       "rows");
  for (auto i = options.first + static_cast<int64_t>(rows.size());
       i < options.first + options.count; ++i) {
    rows.push_back(check_drawn(i, options));
    print_row(rows.back());
    options.json.write_quietly(automata_json(options, rows));
  }
  const AutomataCounts counts(rows);
  std::printf(
      "\n%ld automata, %ld of them with a level that permutes in a cascade of several; %ld models, "
      "%ld of them with delayed factors, %ld answers compared: %s\n",
      counts.automata, counts.cascades, counts.models, counts.delayed, counts.positions,
      counts.wrong == 0 ? "no error"
                        : (std::to_string(counts.wrong) + " models are wrong").c_str());
  options.json.write(automata_json(options, rows));
  return counts.wrong == 0 ? 0 : 1;
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
  app.add_flag("--resume", options->resume,
               "go on after the automata that the file of --json has already");
  options->threads.add_to(app);
  return [options] { return run_automata(*options); };
}

}  // namespace dp::cli
