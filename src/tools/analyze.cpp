// dp analyze: what the heads of a model trained on a word problem do.
#include "analysis/analysis.h"

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "analysis/analysis_json.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/quote.h"
#include "io/model_name.h"
#include "nn/pretrained.h"
#include "report/page.h"
#include "tools/analysis_text.h"
#include "tools/command.h"
#include "train/run.h"

namespace dp::cli {
namespace {

constexpr const char* kAnalyzeExplanation =
    "Each token of a word problem moves the state by a product of factors I - beta k k^T. With a "
    "beta of 2 a\n"
    "factor is a reflection, and two of them a rotation: for S4 the paper found one head whose "
    "betas are near 2\n"
    "for all 24 elements and whose keys lie in three dimensions, the rotations of a cube. This "
    "command asks the\n"
    "same of every head, and measures how many sequences stay right with a head alone and without "
    "it.\n"
    "  ./dp train word-problem --group S4 --out runs/s4 && ./dp analyze runs/s4 --out s4.html";

struct AnalyzeOptions {
  std::string model, page;
  analysis::Options analysis;
  JsonOption json;
  ThreadsOption threads;
};

int analyze(AnalyzeOptions& options) {
  options.json.check();
  if (!options.page.empty()) require_writable(options.page);
  options.threads.apply();
  const RunConfig run = read_run_config(options.model);
  const auto task = std::dynamic_pointer_cast<const WordProblem>(make_task(run));
  if (!task)
    throw InputError(quote(options.model) + " is a run of " + task_name(run.task) +
                     ", and only word problems are analysed");
  const std::string architecture = architecture_name(run.model);
  if (architecture.find("Delta") == std::string::npos)
    throw InputError(quote(options.model) + " is a run of " + architecture +
                     ", and only DeltaProduct and DeltaNet are analysed");
  const LanguageModel model = load_model(options.model);
  if (options.analysis.length == 0) options.analysis.length = run.training.length;
  const ModelConfig& config = model.config();
  std::printf("%s, %zu elements; %ld layer%s of %ld heads with %ld factors per token\n\n",
              task->options().group.c_str(), task->alphabet().size(), config.num_hidden_layers,
              config.num_hidden_layers == 1 ? "" : "s", config.value_heads(),
              config.num_householder);
  std::fflush(stdout);

  const EvaluationOptions evaluation{.split = options.analysis.split,
                                     .seed = options.analysis.seed,
                                     .sequences = options.analysis.sequences,
                                     .batch_size = options.analysis.batch_size};
  analysis::Analysis result;
  {
    Progress progress("measuring", 1 + 2 * config.num_hidden_layers * config.value_heads());
    int64_t done = 0;
    result = analysis::analyze(
        model, *task, options.analysis, [&](const LanguageModel& changed) -> analysis::Score {
          const int64_t length = options.analysis.length;
          const Accuracy accuracy = evaluate(changed, *task, length, evaluation);
          progress.update(++done, "heads alone and cut");
          return {accuracy.sequence_accuracy(length), accuracy.token_accuracy(length)};
        });
  }
  print_analysis(result);
  options.json.write(to_json(result));
  if (!options.page.empty()) {
    nlohmann::ordered_json data = {{"page", "analysis"}};
    data.update(to_json(result));
    report::write_page(report::rounded(std::move(data)), options.page);
    std::printf("wrote %s\n", options.page.c_str());
  }
  return 0;
}

}  // namespace

Run add_analyze(CLI::App& app) {
  auto options = std::make_shared<AnalyzeOptions>();
  app.footer(kAnalyzeExplanation);
  app.add_option("model", options->model,
                 "directory of a run of a word problem, or one of its checkpoints")
      ->type_name("DIR")
      ->required();
  app.add_option("--out", options->page, "also write a page of charts, to open in a browser")
      ->type_name("FILE");
  app.add_option("--sequences", options->analysis.sequences,
                 "test sequences to measure with, and to average over where a layer sees more than "
                 "the token")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  options->analysis.length = 0;
  app.add_option("--length", options->analysis.length, "length of the test sequences (default: the training length)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--batch", options->analysis.batch_size, "sequences at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--seed", options->analysis.seed, "of the test sequences")->capture_default_str();
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return analyze(*options); };
}

}  // namespace dp::cli
