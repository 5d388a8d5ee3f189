// Trainings and evaluations of a sweep, each in a process of its own, side by side.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "train/sweep.h"

namespace dp {

using SweepFailures = std::map<std::string, std::string>;  // run -> the last line of its log

/// Told of what happens while runs are trained, for people who watch.
struct SweepWatcher {
  std::function<void(double runs_done, const std::string& status)> update;  // every 200 ms
  std::function<void(const std::string& run)> ended;                        // finished or failed
};

/// A run is a directory of its name under `out` (train/run.h) with an eval.json once it is finished, and a
/// log beside it.
class SweepRunner {
 public:
  /// Throws InputError if `out` holds runs of these names with other options.
  SweepRunner(const Sweep& sweep, std::filesystem::path out);

  /// Runs with `only` in their name, all for an empty text, without those for whose name `stored` has a command with the same options.
  /// Throws InputError if there are none of that name.
  std::vector<const SweepRun*> choose(const std::string& only = {},
                                      const std::map<std::string, std::string>& stored = {}) const;
  /// Trains and evaluates those of the chosen runs that are not finished, `jobs` at a time of `threads` each. Returns false if SIGINT or SIGTERM
  /// interrupted it: the runs have saved their work, and the same call continues them.
  bool run(const std::vector<const SweepRun*>& chosen, int jobs, int threads, const SweepWatcher& watcher);

  /// Finished runs, and the finished shares of running ones.
  double runs_done() const;
  bool finished(const SweepRun& run) const;
  const std::filesystem::path& out() const { return out_; }
  const SweepFailures& failures() const { return failures_; }

 private:
  struct Job {
    const SweepRun* run;
    bool training;
  };

  std::filesystem::path log(const SweepRun& run) const { return out_ / (run.name + ".log"); }
  void train(const SweepRun& run);
  void evaluate(const SweepRun& run);
  // Starts the evaluation after a training. Returns whether the run has nothing left to do.
  bool ended(const Job& job, int status);
  std::string status_line() const;  // what each running process does

  const Sweep& sweep_;
  std::filesystem::path out_;
  std::string program_;
  std::map<pid_t, Job> running_;
  int threads_ = 1;
  size_t done_ = 0;  // finished or failed
  SweepFailures failures_;
};

}  // namespace dp
