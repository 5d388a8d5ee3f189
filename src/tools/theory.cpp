// dp theory: the paper's claims, checked live.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/timer.h"
#include "theory/claims.h"
#include "theory/expressivity.h"
#include "theory/verify.h"
#include "tools/command.h"
#include "tools/theory_page.h"
#include "tools/verify_options.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kTheoryExplanation =
    "For every entry of the paper's table: models are built from the proof, and their answers "
    "compared with the group's\n"
    "table or the automaton after every symbol. Then the claims about spectra and stability.\n"
    "  ./dp theory --report theory.html\n"
    "  ./dp theory --words all:6 --most-words 2000000 --random 1000x1000 --long 1000000   # "
    "thorough: hours";

struct TheoryOptions {
  WordOptions words{.words = "all:3", .random = "4x200", .options = {}};
  std::string dtype = "f32", only, page;
  bool spectra = false, resume = false;
  JsonOption json;
  ThreadsOption threads;
};

using theory::Example;
using theory::Expressed;

/// What tells a model from all others.
ordered_json model_name(const Expressed& entry, const Example& example) {
  return {{"claimed_layers", entry.layers},
          {"model", entry.model},
          {"claim", entry.claim},
          {"source", entry.source},
          {"example", example.name}};
}

ordered_json check_model(const Expressed& entry, const Example& example,
                         const TheoryOptions& options) {
  const Timer timer;
  const theory::Compiled compiled = example.compile();
  const theory::Weights weights = compiled.weights(options.dtype == "bf16");
  const ModelConfig& config = weights.config;
  const auto answerer = theory::make_answerer(weights.model(), options.threads.count());
  const theory::VerifyResult result =
      theory::verify(*answerer, compiled.problem, options.words.options);
  ordered_json row = model_name(entry, example);
  row.update(
      {{"exact", !result.first_error},
       {"positions", result.all_words.right_positions + result.random_words.right_positions +
                         result.long_length},
       {"seconds", timer.seconds()},
       {"theorem", compiled.construction.theorem},
       {"detail", compiled.construction.detail},
       {"layers", config.num_hidden_layers},
       {"num_householder", config.num_householder},
       {"width", config.hidden_size},
       {"parameters", weights.parameters()},
       {"all_words", {{"length", result.words_length}, {"words", result.all_words.words}}},
       {"random_words", result.random_words.words},
       {"long", {{"length", options.words.options.long_length}, {"right", result.long_length}}}});
  return row;
}

/// The row of this model among those of an earlier run, or null.
ordered_json find_row(const ordered_json& rows, const ordered_json& name) {
  for (const ordered_json& row : rows)
    if (std::ranges::all_of(name.items(),
                            [&](const auto& item) { return row[item.key()] == item.value(); }))
      return row;
  return nullptr;
}

void print_model(const ordered_json& row) {
  const auto layers = row["layers"].get<int64_t>(), length = row["long"]["length"].get<int64_t>(),
             right = row["long"]["right"].get<int64_t>();
  std::string text = std::to_string(layers) + (layers == 1 ? " layer, " : " layers, ") +
                     row["parameters"].dump() + " parameters";
  if (right < length) text += ", one word right up to " + std::to_string(right);
  std::printf("  %s %-58s %10ld positions  %s\n", row["exact"].get<bool>() ? "✓" : "✗",
              row["example"].get<std::string>().c_str(), row["positions"].get<int64_t>(),
              text.c_str());
  std::fflush(stdout);
}

ordered_json theory_json(const TheoryOptions& options, const ordered_json& rows,
                         const ordered_json& claims) {
  return {{"dtype", options.dtype},
          {"words", options.words.settings()},
          {"models", rows},
          {"claims", claims}};
}

int run_theory(TheoryOptions& options) {
  options.words.parse();
  options.json.check();
  if (!options.page.empty()) {
    require_writable(options.page);
    prepare_theory_page();
  }
  const ordered_json stored =
      options.resume
          ? stored_rows(options.json,
                        {{"dtype", options.dtype}, {"words", options.words.settings()}}, "models")
          : ordered_json::array();
  auto rows = ordered_json::array();
  theory::TheoryResults results;
  int64_t wrong = 0, built = 0;
  std::vector<theory::Expressed> entries = theory::expressivity_table();
  for (theory::Expressed& further : theory::further_statements())
    entries.push_back(std::move(further));
  for (const theory::Expressed& entry : entries) {
    bool any = false, all_right = true;
    int64_t positions = 0, models = 0;
    for (const theory::Example& example : entry.examples) {
      const std::string full = entry.model + ": " + entry.claim + ": " + example.name;
      if (options.spectra || full.find(options.only) == std::string::npos) continue;
      if (!any)
        std::printf("%s%s layer%s, %s: %s\n", built == 0 ? "" : "\n", entry.layers.c_str(),
                    entry.layers == "1" ? "" : "s", entry.model.c_str(), entry.claim.c_str());
      any = true;
      ordered_json row = find_row(stored, model_name(entry, example));
      if (row.is_null()) row = check_model(entry, example, options);
      print_model(row);
      const bool right = row["exact"].get<bool>();
      all_right = all_right && right, wrong += !right;
      positions += row["positions"].get<int64_t>(), ++models, ++built;
      rows.push_back(std::move(row));
      options.json.write_quietly(theory_json(options, rows, ordered_json::array()));
    }
    if (any)
      results.claims.push_back(
          {entry.layers + (entry.layers == "1" ? " layer, " : " layers, ") + entry.model + ": " +
               entry.claim,
           std::to_string(models) + " built, " + std::to_string(positions) + " answers compared",
           all_right});
  }
  if (built == 0 && !options.spectra)
    throw InputError("--only: no model's description contains " + quote(options.only));
  ordered_json claims = ordered_json::array();
  if (options.only.empty() || options.spectra || !options.page.empty()) {
    std::printf("\nSpectra and stability\n");
    theory::TheoryResults spectra = theory::theory_results();
    for (const theory::TheoryClaim& claim : spectra.claims) {
      std::printf("  %s %s: %s\n", claim.holds ? "✓" : "✗", claim.claim.c_str(),
                  claim.found.c_str());
      claims.push_back({{"claim", claim.claim}, {"found", claim.found}, {"holds", claim.holds}});
      wrong += !claim.holds;
    }
    std::swap(results.claims, spectra.claims);
    spectra.claims.insert(spectra.claims.end(), results.claims.begin(), results.claims.end());
    results = std::move(spectra);
  }
  std::printf("\n%s%s\n",
              built == 0 ? "" : (std::to_string(built) + " examples built from proofs, ").c_str(),
              wrong == 0 ? "everything holds" : (std::to_string(wrong) + " claims failed").c_str());
  if (!options.page.empty()) {
    write_theory_page(results, options.page);
    std::printf("wrote %s: open it in a browser\n", options.page.c_str());
  }
  options.json.write(theory_json(options, rows, claims));
  return wrong == 0 ? 0 : 1;
}

}  // namespace

Run add_theory(CLI::App& app) {
  app.footer(kTheoryExplanation);
  auto options = std::make_shared<TheoryOptions>();
  options->words.options.long_length = 0, options->words.options.most_words = 20000;
  options->words.add_to(app);
  app.add_option("--only", options->only, "models whose description contains this text");
  app.add_flag("--spectra", options->spectra,
               "only the claims about spectra, stability and groups");
  app.add_option("--dtype", options->dtype, "of the weights: f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  app.add_option("--report", options->page, "a page with charts of spectra and stability")
      ->type_name("FILE.html");
  options->json.add_to(app);
  app.add_flag("--resume", options->resume,
               "models that the file of --json has already are not computed again");
  options->threads.add_to(app);
  return [options] { return run_theory(*options); };
}

}  // namespace dp::cli
