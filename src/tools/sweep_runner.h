// Trainings and evaluations of a sweep, each in a process of its own, side by side.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>

#include "tools/sweep_summary.h"
#include "train/sweep.h"

namespace dp::cli {

/// A run is a directory of its name under `out` (train/run.h) with an eval.json once it is finished, and a
/// log beside it.
class SweepRunner {
 public:
  /// Throws InputError if `out` holds runs of these names with other options.
  SweepRunner(const Sweep& sweep, std::filesystem::path out);

  /// Trains and evaluates what is not finished, `jobs` at a time of `threads` each, under a progress bar. Returns false if the
  /// user interrupted it: the runs have saved where they stood, and the same call goes on.
  bool run(int jobs, int threads);

  /// Of those that failed: run -> its last words.
  const std::map<std::string, std::string>& failures() const { return failures_; }

 private:
  struct Job {
    const SweepRun* run;
    bool training;
  };

  bool finished(const SweepRun& run) const;
  std::filesystem::path log(const SweepRun& run) const { return out_ / (run.name + ".log"); }
  void train(const SweepRun& run);
  void evaluate(const SweepRun& run);
  // Whether the run has no more to do.
  bool ended(const Job& job, int status);
  double share_done() const;  // of one run, 1; only running ones are looked at
  std::string standing() const;

  const Sweep& sweep_;
  std::filesystem::path out_;
  std::string program_;
  std::map<pid_t, Job> running_;
  int threads_ = 1;
  size_t done_ = 0;  // finished or failed
  std::map<std::string, std::string> failures_;
};

/// out/report.html about all runs in `out`; if there cannot be one, says why.
void write_report_of(const std::filesystem::path& out);

}  // namespace dp::cli
