// dp demo: one Householder factor per token against two, on the shuffles of three cups.
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/progress.h"
#include "base/timer.h"
#include "tools/command.h"
#include "tools/sweep_tables.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

struct DemoOptions {
  std::string out = "dp-demo";
  bool quick = false;
  JsonOption json;
};

// The word problem of S3: the paper's smallest group that one factor per token cannot follow in one layer.
Sweep demo_runs(bool quick) {
  Sweep sweep;
  sweep.eval_lengths = {128, 256, 512};
  sweep.eval_sequences = quick ? 16 : 512;
  for (const char* n : {"1", "2"})
    sweep.runs.push_back({std::string("n=").append(n),
                          {{"group", "S3"},
                           {"num-householder", n},
                           {"hidden", "64"},
                           {"heads", "4"},
                           {"head-dim", "16"},
                           {"mlp", "128"},
                           {"lr", "3e-3"},
                           {"beta2", "0.9"},
                           {"weight-decay", "0"},
                           {"label-smoothing", "0.3"},
                           {"length", "128"},
                           {"batch", "32"},
                           {"curriculum", "4"},
                           {"steps", quick ? "20" : "1000"},
                           {"eval-every", quick ? "10" : "100"},
                           {"eval-lengths", "128,512"},
                           {"eval-sequences", quick ? "4" : "64"}}});
  return sweep;
}

void introduce(const Sweep& sweep) {
  std::printf(
      "Three cups, and a shuffle of them for every token: which cup is where after each one?\n"
      "That is the word problem of S3, six shuffles, and it takes a state that turns.\n"
      "Two small models learn it side by side from random sequences of 128 shuffles:\n\n"
      "  n = 1  one Householder factor per token, as in DeltaNet: it can reflect its state\n"
      "  n = 2  two of them, DeltaProduct: two reflections are a rotation\n\n"
      "Then both are tested on sequences of up to %ld, four times as long as any they have "
      "seen.\n\n",
      sweep.eval_lengths.back());
  std::fflush(stdout);
}

void print_bars(const std::string& name, const std::map<int64_t, double>& accuracies) {
  constexpr int kWidth = 30;
  std::printf("  %s\n", name.c_str());
  for (const auto& [length, accuracy] : accuracies) {
    std::string bar;
    for (int i = 0; i < kWidth; ++i) bar += accuracy * kWidth > i + 0.5 ? "█" : "░";
    std::printf("    length %4ld  %s %6.1f %%\n", length, bar.c_str(), 100 * accuracy);
  }
}

// What the two results, of sequences of the longest length, say.
std::string verdict(double one, double two, int64_t length) {
  char text[400];
  if (two >= 0.9 && one < 0.1)
    std::snprintf(
        text, sizeof text,
        "Two reflections per token follow the cups: %.1f %% of sequences of %ld are right at every "
        "single\nposition. One reflection cannot: %.1f %%.",
        100 * two, length, 100 * one);
  else
    std::snprintf(
        text, sizeof text,
        "n = 2 is right on %.1f %% of sequences of %ld, n = 1 on %.1f %%. The paper has n = 2 at "
        "100 %% and n = 1\nat 0 %%: this training was too short to show it.",
        100 * two, length, 100 * one);
  return text;
}

int demo(const DemoOptions& options) {
  options.json.check();
  const Timer timer;
  const Sweep sweep = demo_runs(options.quick);
  const fs::path out = options.out;
  introduce(sweep);
  SweepRunner runner(sweep, out);
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (!run_with_progress(runner, runner.choose(), std::min(2, cores), 1)) {
    std::printf("stopped; run ./dp demo again to continue\n");
    return 130;
  }
  for (const auto& [run, words] : runner.failures())
    throw std::runtime_error("training " + run + " failed: " + words);
  std::printf("\nSequences right at every position, of %ld random ones:\n\n", sweep.eval_sequences);
  nlohmann::ordered_json result = {{"training_length", 128}};
  std::map<std::string, double> longest;
  for (const SweepRun& run : sweep.runs) {
    const std::map<int64_t, double> accuracies = read_sweep_result(out / run.name).by_length;
    print_bars(run.name, accuracies);
    for (const auto& [length, accuracy] : accuracies)
      result[run.name][std::to_string(length)] = accuracy;
    longest[run.name] = accuracies.at(sweep.eval_lengths.back());
  }
  std::printf("\n%s\n\n",
              verdict(longest["n=1"], longest["n=2"], sweep.eval_lengths.back()).c_str());
  write_sweep_report(out);
  std::printf(
      "This took %s. %s holds the trained models:\n"
      "  ./dp eval %s/n=2 --lengths 1024    still longer sequences\n"
      "  ./dp analyze %s/n=2                what its heads have learned\n",
      format_duration(timer.seconds()).c_str(), out.c_str(), out.c_str(), out.c_str());
  options.json.write(result);
  return 0;
}

}  // namespace

Run add_demo(CLI::App& app) {
  auto options = std::make_shared<DemoOptions>();
  app.add_option("--out", options->out,
                 "directory of the two runs and the report; finished runs in it are shown again")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_flag("--quick", options->quick, "a few steps only, to see that everything works");
  options->json.add_to(app);
  return [options] { return demo(*options); };
}

}  // namespace dp::cli
