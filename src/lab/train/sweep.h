// A grid of runs, described in one file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace dp {

/// One run: options of `dp train` by name, without dashes.
struct SweepRun {
  std::string name;  // of its directory, from what varies: "group=S3,num-householder=2,seed=0"
  std::vector<std::pair<std::string, std::string>> options;
  std::string task = "word-problem";  // what follows `dp train`
};

/// The file, in JSON:
///   "jobs"       runs at a time, each with its share of the cores; by default as many as there are cores
///   "task"       what follows `dp train`, if it does not vary: "word-problem"
///   "base"       options that all runs share: {"length": 128, "lr": 0.001}
///   "grid"       options with a list of values each, a run for every combination: {"seed": [0, 1],
///                "task": ["parity", "mod-arith"]}; where a value is an object it sets several options,
///                and the name above it is only a name: {"row": [{"model": "gla"}, {"model": "mamba",
///                "eigenvalues": "0,1"}]}
///   "overrides"  [{"match": {"group": ["S4", "A5"]}, "set": {"steps": 9000}}, ...], later ones win;
///                task and model can be matched like options
///   "evaluate"   {"lengths": [128, 512], "sequences": 512}, and of text "rank-every" and "boundaries": options of `dp eval`
/// A flag such as forget-gate has the value true or false.
struct Sweep {
  std::vector<SweepRun> runs;
  int jobs = 0;                       // 0: as many as there are cores
  std::vector<int64_t> eval_lengths;  // empty: as dp eval has them for the task
  int64_t eval_sequences = 512;
  int64_t eval_rank_every = 0, eval_boundaries = 0;
};

/// Throws InputError that names the file and the field.
Sweep parse_sweep(const std::string& text, const std::string& file);
Sweep read_sweep(const std::filesystem::path& file);

}  // namespace dp
