// dp eval: how often a trained model is right, by length and position.
#include <ATen/ATen.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "nn/pretrained.h"
#include "theory/problem_task.h"
#include "train/run.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

struct EvalOptions {
  std::string model;
  std::vector<int64_t> lengths = {128, 256, 512};
  EvaluationOptions evaluation;
  JsonOption json;
  ThreadsOption threads;
};

int eval(const EvalOptions& options) {
  options.json.check();
  options.threads.apply();
  const bool compiled = theory::is_compiled(options.model);
  std::shared_ptr<const Task> task;
  std::string name;
  int64_t training_length = 0;
  if (compiled) {
    theory::Problem problem = theory::load_problem(options.model);
    name = problem.name;
    task = std::make_shared<theory::ProblemTask>(std::move(problem));
  } else {
    const RunConfig run = read_run_config(options.model);
    name = run.task.group, training_length = run.training.length, task = make_task(run);
  }
  const LanguageModel model = load_model(options.model);
  const Accuracy accuracy =
      evaluate(model, *task, *std::ranges::max_element(options.lengths), options.evaluation);
  std::printf(
      "%s, %ld test sequences, %s\n\n", name.c_str(), accuracy.sequences,
      compiled ? "compiled" : ("trained on length " + std::to_string(training_length)).c_str());
  std::printf("%8s  %18s  %15s\n", "length", "sequences right", "answers right");
  auto rows = ordered_json::array();
  for (const int64_t length : options.lengths) {
    const double sequences = accuracy.sequence_accuracy(length),
                 tokens = accuracy.token_accuracy(length);
    std::printf("%8ld  %18.4f  %15.4f\n", length, sequences, tokens);
    rows.push_back(
        {{"length", length}, {"sequence_accuracy", sequences}, {"token_accuracy", tokens}});
  }
  options.json.write(
      {{"lengths", rows},
       {"sequences", accuracy.sequences},
       {"training_length", training_length},
       {"by_position",
        {{"token_accuracy", accuracy.by_position}, {"sequence_accuracy", accuracy.all_right}}}});
  return 0;
}

}  // namespace

Run add_eval(CLI::App& app) {
  auto options = std::make_shared<EvalOptions>();
  app.add_option("model", options->model,
                 "directory of a run, one of its checkpoints, or a compiled model")
      ->type_name("DIR")
      ->required();
  app.add_option("--lengths", options->lengths, "lengths to report")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--sequences", options->evaluation.sequences, "test sequences")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--batch", options->evaluation.batch_size, "sequences at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--seed", options->evaluation.seed, "of the test sequences")
      ->capture_default_str();
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return eval(*options); };
}

}  // namespace dp::cli
