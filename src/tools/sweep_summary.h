// What a sweep found: its table, sweep.json, and means over seeds.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/statistics.h"
#include "train/sweep.h"

namespace dp::cli {

/// What is known of all runs, as out/sweep.json has it:
/// {"runs": [{"name", "task", "options", "steps", "tokens", "seconds", "lengths", "mean_scaled_accuracy", "failed"}],
///  "over_seeds": [{"name", "task", "seeds", "mean_scaled_accuracy": STATISTICS, "lengths": [{"length", ...STATISTICS}]}]}
/// STATISTICS: {"runs", "mean", "standard_deviation", "interval": [low, high]}, the last two for two runs or more.
std::string summarise(const Sweep& sweep, const std::filesystem::path& out,
                      const std::map<std::string, std::string>& failures);

/// Options as JSON: numbers, true and false as such, the rest as text.
nlohmann::ordered_json options_json(const SweepRun& run);

/// The last line of a run's metrics.
struct Standing {
  int64_t step = 0, length = 0, tokens = 0;
  double loss = 0, seconds = 0;
};
std::optional<Standing> read_standing(const std::filesystem::path& run);

/// A discarded value if there is no such file, or it is not JSON.
nlohmann::ordered_json read_json_if_valid(const std::filesystem::path& file);

/// The last line that is complete and not empty, of files of any size.
std::string last_line(const std::filesystem::path& file);

/// A run's eval.json.
struct SweepResult {
  bool losses = false;                  // what by_length has: losses, of text,
  std::optional<double> mean_scaled;    // scaled accuracies, if there is a mean of these,
  std::map<int64_t, double> by_length;  // or accuracies of sequences
  int64_t sequences = 0;                // that these were measured on; 0: unknown
};
/// Empty without the file.
SweepResult result_of(const std::filesystem::path& run);
/// "  128: 1.0000  256: 0.9980", with the mean before them if there is one.
std::string to_text(const SweepResult& result);

/// Runs that differ in nothing but their seed.
struct SeedGroup {
  std::string name, task;  // name: of the runs, without the seed
  std::vector<std::string> seeds;
  std::optional<SeedStatistics> mean_scaled;
  std::map<int64_t, SeedStatistics> by_length;
};
/// Of what is finished, in the order of the sweep.
std::vector<SeedGroup> over_seeds(const Sweep& sweep, const std::filesystem::path& out);

/// A table per measure of a task: runs, then means over seeds.
void print_tables(const Sweep& sweep, const std::filesystem::path& out,
                  const std::map<std::string, std::string>& failures);

}  // namespace dp::cli
