#include "tools/sweep_tables.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/progress.h"
#include "report/report.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

// What a task is measured by.
const char* task_measure(const std::string& task) {
  if (task == "text") return "loss at positions up to";
  return task == "word-problem" ? "sequences right at length"
                                : "scaled accuracy: mean, and at length";
}

// "  128: 1.0000  256: 0.9980", with the mean before them if there is one.
std::string to_text(const SweepResult& result) {
  std::string text;
  char part[64];
  if (result.mean_scaled) {
    std::snprintf(part, sizeof part, "  mean %.4f ", *result.mean_scaled);
    text = part;
  }
  for (const auto& [length, value] : result.by_length) {
    std::snprintf(part, sizeof part, "  %ld: %.4f", length, value);
    text += part;
  }
  return text;
}

// "0.9980 ± 0.0035 [0.9894, 1.0000]"
std::string to_text(const SeedStatistics& found) {
  char text[96];
  if (!found.deviation)
    std::snprintf(text, sizeof text, "%.4f", found.mean);
  else
    std::snprintf(text, sizeof text, "%.4f ± %.4f [%.4f, %.4f]", found.mean, *found.deviation,
                  found.interval->low, found.interval->high);
  return text;
}

// "128: 1.0000 [0.9926, 1.0000]": accuracies of sequences with their binomial intervals.
std::string with_intervals(const SweepResult& result) {
  if (result.losses || result.mean_scaled || result.sequences < 1) return to_text(result);
  std::string text;
  for (const auto& [length, value] : result.by_length) {
    const Interval interval = share_interval(value, result.sequences);
    char part[96];
    std::snprintf(part, sizeof part, "  %ld: %.4f [%.4f, %.4f]", length, value, interval.low,
                  interval.high);
    text += part;
  }
  return text;
}

void print_runs(const std::vector<const SweepRun*>& runs, const fs::path& out,
                const SweepFailures& failures, int width) {
  bool binomial = false;
  for (const SweepRun* run : runs) {
    std::printf("%-*s", width, run->name.c_str());
    const SweepResult result = read_sweep_result(out / run->name);
    if (failures.contains(run->name))
      std::printf("  failed");
    else if (result.by_length.empty())
      std::printf("  not finished");
    std::printf("%s\n", with_intervals(result).c_str());
    binomial = binomial || (!result.losses && !result.mean_scaled && result.sequences > 0);
  }
  if (binomial)
    std::printf("In brackets: 95 %% intervals for the number of sequences tested (Wilson).\n");
}

void print_over_seeds(const std::vector<SeedGroup>& groups, const std::string& measure, int width) {
  bool said = false;
  for (const SeedGroup& group : groups) {
    if (task_measure(group.task) != measure || group.seeds.size() < 2) continue;
    if (!said)
      std::printf("\nOver seeds: mean ± standard deviation [95 %% interval of the mean, Student's t]\n");
    said = true;
    std::printf("%-*s  %zu seeds", width, group.name.c_str(), group.seeds.size());
    if (group.mean_scaled) std::printf("  mean %s", to_text(*group.mean_scaled).c_str());
    // With a mean over eight lengths, the lengths themselves would make a line too long to read; sweep.json has them.
    if (!group.mean_scaled)
      for (const auto& [length, found] : group.by_length)
        std::printf("  %ld: %s", length, to_text(found).c_str());
    std::printf("\n");
  }
}

}  // namespace

bool run_with_progress(SweepRunner& runner, const std::vector<const SweepRun*>& chosen, int jobs, int threads) {
  constexpr double kParts = 1000;  // of a run, for the bar
  const auto parts = [](double runs) { return static_cast<int64_t>(kParts * runs); };
  const auto finished = std::ranges::count_if(chosen, [&](const SweepRun* run) { return runner.finished(*run); });
  if (finished > 0) std::printf("%ld of %zu runs are finished already\n", finished, chosen.size());
  std::fflush(stdout);
  Progress progress("training", parts(static_cast<double>(chosen.size())), parts(static_cast<double>(finished)));
  return runner.run(
      chosen, jobs, threads,
      {.update = [&](double done, const std::string& status) { progress.update(parts(done), status); },
       .ended =
           [&](const std::string& run) {
             const auto failure = runner.failures().find(run);
             progress.say(run + (failure == runner.failures().end()
                                     ? ":" + to_text(read_sweep_result(runner.out() / run))
                                     : " failed: " + failure->second));
           }});
}
void write_sweep_report(const fs::path& out) {
  try {
    write_report(std::vector{out}, out / "report.html");
    std::printf("wrote %s: open it in a browser\n", (out / "report.html").c_str());
  } catch (const InputError& error) {
    std::printf("no report: %s\n", error.what());
  }
}

void print_tables(const Sweep& sweep, const fs::path& out, const SweepFailures& failures) {
  const std::vector<SeedGroup> groups = over_seeds(sweep, out);
  for (const char* task : {"word-problem", "parity", "text"}) {
    const std::string measure = task_measure(task);
    std::vector<const SweepRun*> runs;
    size_t width = 4;
    for (const SweepRun& run : sweep.runs) {
      if (task_measure(run.task) != measure) continue;
      runs.push_back(&run);
      width = std::max(width, run.name.size());
    }
    if (runs.empty()) continue;
    std::printf("\n%-*s  %s\n", static_cast<int>(width), "run", measure.c_str());
    print_runs(runs, out, failures, static_cast<int>(width));
    print_over_seeds(groups, measure, static_cast<int>(width));
  }
}

}  // namespace dp::cli
