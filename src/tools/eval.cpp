// dp eval: how often a trained model is right, by length and position; of text, how surprised it is.
#include <ATen/ATen.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/command.h"
#include "tools/eval_text.h"
#include "nn/pretrained.h"
#include "tasks/problem_task.h"
#include "train/run.h"
#include "train/statistics.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

struct EvalOptions {
  std::string model;
  std::vector<int64_t> lengths;
  EvaluationOptions evaluation;
  TextEvalOptions text;
  JsonOption json;
  ThreadsOption threads;
};

struct Subject {
  std::shared_ptr<const Task> task;
  std::string name;
  int64_t training_length = 0;  // 0: compiled
};

Subject find_subject(const std::string& model) {
  if (theory::is_compiled(model)) {
    theory::Problem problem = theory::load_problem(model);
    const std::string name = problem.name;
    return {std::make_shared<ProblemTask>(std::move(problem)), name};
  }
  const RunConfig run = read_run_config(model);
  return {make_task(run.task), describe_task(run.task), run.training.length};
}

void print_heading(const Subject& subject, int64_t sequences, const char* of) {
  std::printf("%s, %ld test sequences%s, %s\n\n", subject.name.c_str(), sequences, of,
              subject.training_length == 0
                  ? "compiled"
                  : ("trained on length " + std::to_string(subject.training_length)).c_str());
}

// With Wilson's 95 % interval of the share of sequences.
ordered_json with_interval(const EvalReport& report, int64_t sequences) {
  const Interval interval = share_interval(report.sequence_accuracy, sequences);
  ordered_json row = to_json(report);
  row["sequence_accuracy_low"] = interval.low;
  row["sequence_accuracy_high"] = interval.high;
  return row;
}

// Where dp report looks for it. Models that are not training runs have no such place.
void store(const std::string& model, const ordered_json& found) {
  const std::filesystem::path directory = model, file = directory / "eval.json";
  if (!std::filesystem::exists(directory / "run.json")) return;
  try {
    write_file_atomically(file, dump_json(found, 2) + "\n");
    std::printf("\nstored in %s: dp report shows it\n", file.c_str());
  } catch (const std::exception& error) {  // a directory of someone else's
    std::fprintf(stderr, "not stored in the run: %s\n", error.what());
  }
}

ordered_json eval_by_position(const LanguageModel& model, const Subject& subject,
                              const std::vector<int64_t>& lengths,
                              const EvaluationOptions& options) {
  const Accuracy accuracy =
      evaluate(model, *subject.task, *std::ranges::max_element(lengths), options);
  print_heading(subject, accuracy.sequences, "");
  std::printf("%8s  %16s  %18s  %15s\n", "length", "sequences right", "95 % interval",
              "answers right");
  auto rows = ordered_json::array();
  for (const EvalReport& report : reports_at(accuracy, lengths)) {
    const Interval interval = share_interval(report.sequence_accuracy, accuracy.sequences);
    std::printf("%8ld  %16.4f  %8.4f to %.4f  %15.4f\n", report.length, report.sequence_accuracy,
                interval.low, interval.high, report.token_accuracy);
    rows.push_back(with_interval(report, accuracy.sequences));
  }
  return {{"lengths", rows},
          {"sequences", accuracy.sequences},
          {"training_length", subject.training_length},
          {"by_position",
           {{"token_accuracy", accuracy.by_position}, {"sequence_accuracy", accuracy.all_right}}}};
}

// Of a task that asks once.
ordered_json eval_by_length(const LanguageModel& model, const Subject& subject,
                            const std::vector<int64_t>& lengths, const EvaluationOptions& options) {
  const std::vector<EvalReport> reports = evaluate_lengths(model, *subject.task, lengths, options);
  const double mean = *mean_scaled_accuracy(reports);
  const ConstantAnswer constant = best_constant_answer(*subject.task, lengths, options);
  print_heading(subject, options.sequences, " of each length");
  std::printf("%8s  %18s  %15s\n", "length", "sequences right", "scaled accuracy");
  auto rows = ordered_json::array();
  for (const EvalReport& report : reports) {
    std::printf("%8ld  %18.4f  %15.4f\n", report.length, report.sequence_accuracy,
                *report.scaled_accuracy);
    rows.push_back(with_interval(report, options.sequences));
  }
  std::printf("%8s  %18s  %15.4f\n\n", "mean", "", mean);
  std::printf(
      "Scaled accuracy is 0 where a model is right as often as by guessing, %g, and 1 where "
      "it always is.\n",
      subject.task->chance());
  std::printf("The same answer to all sequences, the best one, has a mean scaled accuracy of %.4f.\n", constant.mean_scaled_accuracy);
  return {{"lengths", rows},
          {"mean_scaled_accuracy", mean},
          {"constant_answer",
           {{"answer", constant.answer}, {"mean_scaled_accuracy", constant.mean_scaled_accuracy}}},
          {"sequences", options.sequences},
          {"training_length", subject.training_length}};
}

bool is_text_run(const std::string& model) {
  return !theory::is_compiled(model) &&
         std::filesystem::exists(std::filesystem::path(model) / "run.json") &&
         std::holds_alternative<TextOptions>(read_run_config(model).task);
}

int eval(const EvalOptions& options) {
  options.json.check();
  options.threads.apply();
  if (options.text.any() || is_text_run(options.model)) {
    const ordered_json found =
        eval_text(options.model, options.lengths, options.evaluation.sequences, options.text);
    if (options.text.data.empty()) store(options.model, found);  // not on other data than its own
    options.json.write(found);
    return 0;
  }
  const Subject subject = find_subject(options.model);
  std::vector<int64_t> lengths = options.lengths;
  if (lengths.empty()) lengths = default_lengths(*subject.task);
  for (const int64_t length : lengths)
    if (length < subject.task->shortest())
      throw InputError("--lengths: expected at least " + std::to_string(subject.task->shortest()) +
                       " for " + subject.name + ", found " + std::to_string(length));
  const LanguageModel model = load_model(options.model);
  const ordered_json found =
      subject.task->asks_once() ? eval_by_length(model, subject, lengths, options.evaluation)
                                : eval_by_position(model, subject, lengths, options.evaluation);
  store(options.model, found);
  options.json.write(found);
  return 0;
}

}  // namespace

Run add_eval(CLI::App& app) {
  auto options = std::make_shared<EvalOptions>();
  app.add_option("model", options->model,
                 "directory of a run, of one of its checkpoints or of a compiled model; with --data, "
                 "--choices or --last-word, any model")
      ->type_name("DIR")
      ->required();
  app.add_option(
         "--lengths", options->lengths,
         "lengths to report (default: 128,256,512, or eight lengths from 40 to 256 for tasks that ask "
         "once); for text: the loss by position up to the longest (default: none)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 24));
  app.add_option(
         "--sequences", options->evaluation.sequences,
         "number of test sequences; for tasks that ask once, of each length; for text, of the "
         "longest of --lengths, if the text is long enough")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--batch", options->evaluation.batch_size, "sequences per batch")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--seed", options->evaluation.seed, "seed of the test sequences")
      ->capture_default_str();
  options->text.add_to(app);
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return eval(*options); };
}

}  // namespace dp::cli
