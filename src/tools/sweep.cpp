// dp sweep: a grid of runs side by side, and a report about them.
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "report/stored_results.h"
#include "tools/command.h"
#include "tools/sweep_tables.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

struct SweepOptions {
  std::string file, out, only, stored;
  int jobs = 0;
  JsonOption json;
};

// The commands of stored runs by name; none if there is no such file yet.
std::map<std::string, std::string> stored_commands(const fs::path& file) {
  std::map<std::string, std::string> commands;
  if (file.empty() || !fs::exists(file)) return commands;
  const nlohmann::ordered_json results = report::read_stored_results(file);
  for (const nlohmann::ordered_json& run : results["runs"])
    commands[run["name"].get<std::string>()] = run["command"].get<std::string>();
  return commands;
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
  const std::vector<const SweepRun*> chosen = runner.choose(options.only, stored_commands(options.stored));
  if (const size_t kept = runner.choose(options.only).size() - chosen.size(); kept > 0)
    std::printf("%zu of these runs are in %s already and not run again\n", kept, options.stored.c_str());
  if (chosen.empty()) return 0;
  const bool whole = run_with_progress(runner, chosen, jobs, std::max(1, cores / jobs));
  print_tables(plan, out, runner.failures());
  options.json.write(nlohmann::ordered_json::parse(sweep_summary(plan, out, runner.failures())));
  if (!whole) {
    std::printf("stopped; run the same command again to continue\n");
    return 130;
  }
  std::printf("wrote %s\n", (out / "sweep.json").c_str());
  if (runner.failures().size() < plan.runs.size()) write_sweep_report(out);
  return runner.failures().empty() ? 0 : 1;
}

constexpr const char* kFileHelp = R"(FILE is JSON:

  {
    "task": "word-problem",                         what follows dp train
    "base": {"recipe": "quick", "steps": 1000,      options that all runs share, by name, without dashes;
             "eval-lengths": [128, 512]},           lists where an option takes a list, true or false for flags
    "grid": {"group": ["S3", "S4"],                 a run for every combination of these values
             "seed": [0, 1, 2]},
    "overrides": [{"match": {"group": "S4"},        options for the runs that match; later ones win
                   "set": {"steps": 9000}}],
    "evaluate": {"lengths": [128, 512],             options of dp eval for all runs
                 "sequences": 512},
    "jobs": 2,                                      runs at a time
    "comment": "anything"
  }

All fields can be left out. A value in grid that is an object sets several options at once, and the name above it
is only a name: {"row": [{"model": "gla"}, {"model": "mamba", "eigenvalues": "0,1"}]}; task and model can vary too.
Options of base that a run's model does not have are left out of that run; anywhere else they are refused. All
names and values are checked before the first run starts. The same command goes on after an interruption.)";

}  // namespace

Run add_sweep(CLI::App& app) {
  app.footer(kFileHelp);
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
  app.add_option("--only", options->only,
                 "only runs with this text in their names, such as num-householder=2 (default: all)")
      ->type_name("TEXT");
  app.add_option("--stored", options->stored,
                 "results of ./dp report --export json; runs that it has with the same options are not run again")
      ->type_name("FILE");
  options->json.add_to(app);
  return [options] { return sweep(*options); };
}

}  // namespace dp::cli
