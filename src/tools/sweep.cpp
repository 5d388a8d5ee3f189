// dp sweep: a grid of runs side by side, and a report about them.
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/command.h"
#include "tools/sweep_runner.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

struct SweepOptions {
  std::string file, out;
  int jobs = 0;
  JsonOption json;
};

// What a task is measured by.
const char* measure_of(const std::string& task) {
  if (task == "text") return "loss at positions up to";
  return task == "word-problem" ? "sequences right at length"
                                : "scaled accuracy: mean, and at length";
}

// The runs whose tasks have this measure.
void print_table(const Sweep& sweep, const fs::path& out, const SweepRunner& runner,
                 const std::string& measure) {
  std::vector<const SweepRun*> runs;
  size_t width = 4;
  for (const SweepRun& run : sweep.runs) {
    if (measure_of(run.task) != measure) continue;
    runs.push_back(&run);
    width = std::max(width, run.name.size());
  }
  if (runs.empty()) return;
  std::printf("\n%-*s  %s\n", static_cast<int>(width), "run", measure.c_str());
  for (const SweepRun* run : runs) {
    std::printf("%-*s", static_cast<int>(width), run->name.c_str());
    const SweepResult result = result_of(out / run->name);
    if (runner.failures().contains(run->name))
      std::printf("  failed");
    else if (result.by_length.empty())
      std::printf("  not finished");
    std::printf("%s\n", to_text(result).c_str());
  }
}

int sweep(const SweepOptions& options) {
  const Sweep plan = read_sweep(options.file);
  const fs::path out = options.out.empty() ? fs::path(options.file).replace_extension("") / "runs"
                                           : fs::path(options.out);
  options.json.check();
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int jobs = options.jobs > 0 ? options.jobs : plan.jobs > 0 ? plan.jobs : cores;
  std::printf("%zu runs, %d at a time, into %s\n", plan.runs.size(), jobs, out.c_str());
  SweepRunner runner(plan, out);
  const bool whole = runner.run(jobs, std::max(1, cores / jobs));
  for (const char* task : {"word-problem", "parity", "text"})
    print_table(plan, out, runner, measure_of(task));
  options.json.write(nlohmann::ordered_json::parse(summarise(plan, out, runner.failures())));
  if (!whole) {
    std::printf("stopped; the same command goes on\n");
    return 130;
  }
  std::printf("wrote %s\n", (out / "sweep.json").c_str());
  if (runner.failures().size() < plan.runs.size()) write_report_of(out);
  return runner.failures().empty() ? 0 : 1;
}

}  // namespace

Run add_sweep(CLI::App& app) {
  auto options = std::make_shared<SweepOptions>();
  app.add_option("file", options->file,
                 "JSON with the options of dp train under base, and under grid lists of values")
      ->type_name("FILE.json")
      ->required();
  app.add_option("--out", options->out, "directory of the runs (default: FILE/runs)")
      ->type_name("DIR");
  app.add_option("--jobs", options->jobs,
                 "runs at a time, each with its share of the cores (default: what FILE says, or "
                 "one per core)")
      ->check(CLI::Range(1, 1024));
  options->json.add_to(app);
  return [options] { return sweep(*options); };
}

}  // namespace dp::cli
