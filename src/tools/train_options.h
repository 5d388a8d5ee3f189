// The options of dp train, one set per task, made of a run's settings.
#pragma once
#include <CLI/App.hpp>
#include <set>
#include <string>

#include "tools/command.h"
#include "train/run_settings.h"

namespace dp::cli {

struct TrainOptions {
  RunConfig run;
  std::set<std::string> given;  // settings that the command line names
  std::string out;
  bool resume = false;
  double rank_timeout = 60;  // seconds
  ThreadsOption threads;
};

/// Gives `app` the options of dp train TASK, with that task's defaults. `options` must outlive it.
void add_train_options(CLI::App& app, const TaskOptions& task, TrainOptions& options);

}  // namespace dp::cli
