// The options of dp train, one set per task, and the run that they describe.
#pragma once
#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "tools/command.h"
#include "train/run.h"

namespace dp::cli {

struct TrainOptions {
  RunConfig run;  // its model lacks what config_of() adds
  std::string out;
  std::string model = "deltaproduct", eigenvalues = "-1,1", answers = "end",
              init = "normal";
  bool resume = false, forget_gate = false, output_gate = false;
  bool settings_given = false;  // besides where and how to run
  bool factors_given = false;
  int64_t conv_size = 0;
  double rank_timeout = 60;  // seconds
  ThreadsOption threads;
};

/// Gives `app` the options of dp train TASK, with that task's defaults.
void add_train_options(CLI::App& app, const std::string& task, TrainOptions& options);

/// After parsing: which of these the user wrote.
void note_given(const CLI::App& app, TrainOptions& options);

/// Throws InputError for a model or a task that cannot be.
RunConfig config_of(const TrainOptions& options);

}  // namespace dp::cli
