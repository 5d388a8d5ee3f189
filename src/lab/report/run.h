// Training runs as a report sees them: numbers and text, read from the files of train/run.h.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/text_results.h"

namespace dp {
struct RunConfig;
}

namespace dp::report {

struct TrainingStep {
  int64_t step = 0, length = 0;
  double loss = 0, accuracy = 0;
  int64_t tokens = 0;  // until its end; 0: unknown
};

/// Word problems ask at every token; formal languages, of the paper's table on the Chomsky hierarchy, once.
enum class TaskKind { kWordProblem, kFormalLanguage, kText };

/// Of sequences of one length: the share that is right everywhere, and the share of right answers.
struct LengthAccuracy {
  int64_t length = 0;
  double sequence = 0, token = 0;
  std::optional<double> scaled = {};  // of tasks that ask once: 0 is guessing, 1 always right
};

struct Run {
  std::string name;   // its directory, as it was found
  std::string group;  // of a word problem; the data of a language model; otherwise the task
  std::string model;  // model_name() of io/model_name.h
  TaskKind kind = TaskKind::kWordProblem;
  int64_t num_householder = 1, layers = 1;
  bool negative_eigenvalues = false;
  uint64_t seed = 0;
  int64_t parameters = 0;
  int64_t total_steps = 0, training_length = 0;
  int64_t curriculum_first_length = 0;  // 0: none
  /// What makes it another configuration, in words, in an order that all runs share. Not the seed.
  std::vector<std::string> traits;
  std::string command, settings;  // what made it; run.json

  std::vector<TrainingStep> steps;
  double seconds = 0;
  int64_t broken_lines = 0;  // of metrics.jsonl
  std::string problem;       // with eval.json; empty: none

  /// From eval.json: at position i + 1, the share of answers that are right, and of sequences that
  /// are right up to there. Empty without such a file.
  std::vector<double> token_by_position, sequence_by_position;
  /// From eval.json, or else the last evaluation during training; ascending.
  std::vector<LengthAccuracy> lengths;
  bool tested = false;  // there was an eval.json
  TextResults text;     // of a language model, which has none of the accuracies above

  /// Of sequences of this length, if that was measured.
  std::optional<double> sequence_accuracy(int64_t length) const;
  /// The longest sequences measured; 0: none.
  int64_t longest() const;
  /// Over all lengths measured, of a task that asks once.
  std::optional<double> mean_scaled_accuracy() const;
};

struct Runs {
  std::vector<Run> runs;              // by kind, group, n, layers, eigenvalues, model, seed
  std::vector<std::string> problems;  // of runs left out
};

/// Every run that is one of `folders` or lies below one. Throws InputError for a folder that is or has
/// none, or none that can be read.
Runs find_runs(std::span<const std::filesystem::path> folders);

/// The command that makes a run with these settings in `out`. All that differs between the program's
/// defaults of one version and the next is spelt out; only what is switched off is left out.
std::string train_command(const RunConfig& config, const std::string& out);

/// As the shell reads it back: `it's` -> 'it'\''s'; harmless words stay as they are.
std::string shell_quote(const std::string& word);

/// The words of Run::traits. The first tells models apart: "n = 2" of a word problem, "DeltaProduct_2 [-1,1]"
/// of other tasks, where the eigenvalues need no words of their own.
std::vector<std::string> traits(const RunConfig& config);
inline constexpr size_t kTraitModel = 0, kTraitLayers = 1, kTraitEigenvalues = 2;

}  // namespace dp::report
