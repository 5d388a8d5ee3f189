// A training run in a directory: settings, metrics, checkpoints, the trained model.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tasks/task_options.h"
#include "train/evaluation.h"
#include "train/trainer.h"

namespace dp {

/// Everything that decides what a run computes, and the command that started it.
struct RunConfig {
  std::string command;  // as a shell reads it; empty: unknown, as in runs of older versions
  std::string recipe = "none";  // the one whose settings this run started from (train/recipe.h)
  TaskOptions task;
  ModelConfig model;
  TrainerOptions training;
  std::vector<int64_t>
      eval_lengths;          // empty: the training length; sequences of the split kValidation
  int64_t eval_every = 100;  // steps
  int64_t eval_sequences = 128;
  double stop_at = 0;              // what primary_metric() says; 0: never
  int64_t checkpoint_every = 200;  // steps
  int64_t keep_checkpoints = 2;
};

std::string to_json(const RunConfig& config);
/// Throws InputError that names the file and the field.
RunConfig parse_run_config(const std::string& text, const std::string& file);
/// Of a run's directory, or of one of its checkpoints. `unchanged`: the settings must agree with their checksum, if they have one.
RunConfig read_run_config(const std::filesystem::path& directory, bool unchanged = false);

/// Throws InputError for options that the task does not have, and for lengths that are too short for it.
std::shared_ptr<const Task> make_task(const RunConfig& config);

/// The number that decides which model is best, greater is better: the mean scaled accuracy of a task that asks once, otherwise at the
/// longest length the sequence accuracy, or minus the loss where that is what counts; minus infinity of nothing.
double primary_metric(const std::vector<EvalReport>& reports);

/// What to add to the steps in this metrics.jsonl: older versions counted from 0, this one counts from 1 as the console does.
int64_t metrics_step_offset(const std::filesystem::path& file);

struct RunReport {
  const Trainer& trainer;
  StepReport step;
  std::vector<EvalReport> evaluation;  // empty at steps without one
};

/// Sees every step; false stops the run with a checkpoint.
using RunWatcher = std::function<bool(const RunReport&)>;

enum class RunEnd { kFinished, kReachedTarget, kStopped };

/// Trains in `directory`:
///   config.json model.safetensors   the model at the end
///   run.json                        the settings
///   metrics.jsonl                   a line per step and evaluation
///   tokenizer.json, ...             of text, the one of its data; also beside each model below
///   best/                           the model with the best evaluation, the last of equals
///   checkpoints/step-N/             to go on from; the last few
/// A checkpoint is there whole or not at all. With `resume`, goes on from the last one (from the start if
/// there is none) and ends with the same weights as an uninterrupted run, to the bit. Throws
/// TrainingDiverged, with the last checkpoint kept. A checkpoint that cannot be read is passed over for the one before,
/// which `say` hears of; if none can, throws InputError.
///
/// In a world of several ranks, all call this with the same settings and a directory that they share; rank 0 writes.
/// What it writes does not tell how many ranks there were: any number can go on with it.
RunEnd run_training(const RunConfig& config, const std::filesystem::path& directory, bool resume,
                    const RunWatcher& watch, World* world = nullptr,
                    const std::function<void(const std::string&)>& say = {});

}  // namespace dp
