// The results of a sweep: sweep.json, single runs, means over seeds.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/statistics.h"
#include "train/sweep.h"

namespace dp {

/// The text of out/sweep.json:
/// {"runs": [{"name", "task", "options", "steps", "tokens", "seconds", "lengths", "mean_scaled_accuracy", "failed"}],
///  "over_seeds": [{"name", "task", "seeds", "mean_scaled_accuracy": STATISTICS, "lengths": [{"length", ...STATISTICS}]}]}
/// STATISTICS: {"runs", "mean", "standard_deviation", "interval": [low, high]}, the last two for two runs or more.
std::string sweep_summary(const Sweep& sweep, const std::filesystem::path& out,
                      const std::map<std::string, std::string>& failures);

/// Options as JSON: numbers, true and false as such, the rest as text.
nlohmann::ordered_json options_json(const SweepRun& run);

/// How far a run has come: the last line of its metrics.
struct RunProgress {
  int64_t step = 0, length = 0, tokens = 0;
  double loss = 0, seconds = 0;
};
std::optional<RunProgress> read_run_progress(const std::filesystem::path& run);

/// A discarded value if there is no such file, or it is not JSON.
nlohmann::ordered_json read_json_if_valid(const std::filesystem::path& file);

/// The last line that is complete and not empty, of files of any size.
std::string last_line(const std::filesystem::path& file);

/// A run's eval.json.
struct SweepResult {
  /// Losses if `losses`, scaled accuracies if there is a mean of these, shares of sequences that are right otherwise.
  std::map<int64_t, double> by_length;
  bool losses = false;
  std::optional<double> mean_scaled;
  int64_t sequences = 0;  // that accuracies were measured on; 0: unknown
};
/// Empty if the run has no eval.json yet.
SweepResult read_sweep_result(const std::filesystem::path& run);
/// Runs that differ in nothing but their seed.
struct SeedGroup {
  std::string name, task;  // name: of the runs, without the seed
  std::vector<std::string> seeds;
  std::optional<SeedStatistics> mean_scaled;
  std::map<int64_t, SeedStatistics> by_length;
};
/// Finished runs only, in the order of the sweep.
std::vector<SeedGroup> over_seeds(const Sweep& sweep, const std::filesystem::path& out);

}  // namespace dp
