// What dp sweep and dp demo print about a sweep.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "train/sweep_results.h"
#include "train/sweep_runner.h"

namespace dp::cli {

/// Runs what is not finished of the chosen runs, under a progress bar with a line per run. Returns false if the user
/// interrupted it.
bool run_with_progress(SweepRunner& runner, const std::vector<const SweepRun*>& chosen, int jobs, int threads);

/// A table per measure of a task: runs, then means over seeds.
void print_tables(const Sweep& sweep, const std::filesystem::path& out, const SweepFailures& failures);

/// Writes out/report.html about all runs in `out`, and says where it is or why there is none.
void write_sweep_report(const std::filesystem::path& out);

}  // namespace dp::cli
