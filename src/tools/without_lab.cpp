// What the program dp does where its commands meet a model that only the lab runs: it lets dp-lab do the same.
#include <CLI/App.hpp>

#include "tools/generate.h"
#include "tools/program.h"
#include "tools/selfcheck.h"
#include "tools/serve_compiled.h"
#include "tools/theory_page.h"
#include "tools/trained_words.h"

namespace dp::cli {

int generate_with_rival(const GenerateArguments&) { run_in_lab(); }

int serve_compiled(const std::filesystem::path&, const serve::ServerOptions&, int) { run_in_lab(); }

theory::Problem trained_problem(const std::filesystem::path&) { run_in_lab(); }

std::optional<Question> trained_question(const std::filesystem::path& directory) {
  if (std::filesystem::exists(directory / "run.json")) run_in_lab();
  return std::nullopt;
}

std::unique_ptr<theory::Answerer> nn_answerer(const std::filesystem::path&, int) { run_in_lab(); }

bool is_lab() { return false; }
void set_lab_threads(int) {}
ModelSize size_in_lab(const ModelConfig&) { run_in_lab(); }
void check_model_in_lab(const std::filesystem::path&) { run_in_lab(); }
std::optional<Deviation> check_operator(const std::filesystem::path&) { return std::nullopt; }
std::optional<Deviation> check_nn(const std::filesystem::path&) { return std::nullopt; }

namespace {

// A subcommand of dp-lab, whose options, --help among them, are read there.
Run add_in_lab(CLI::App& app) {
  app.set_help_flag();
  app.prefix_command();
  return []() -> int { run_in_lab(); };
}

}  // namespace

Run add_bench_op(CLI::App& app) { return add_in_lab(app); }
Run add_bench_train(CLI::App& app) { return add_in_lab(app); }
Run add_bench_rivals(CLI::App& app) { return add_in_lab(app); }
Run add_bench_distributed(CLI::App& app) { return add_in_lab(app); }
void prepare_theory_page() { run_in_lab(); }

void write_theory_page(const theory::TheoryResults&, const std::filesystem::path&) { run_in_lab(); }

}  // namespace dp::cli
