// dp launch: the ranks of one run as processes of this machine.
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "tools/command.h"
#include "dist/launcher.h"

namespace dp::cli {
namespace {

constexpr int kWrongInput = 2, kInterrupted = 130;

struct LaunchCommand {
  LaunchOptions launch;
  int max_restarts = 0;
};

int launch(LaunchCommand& command) {
  std::vector<std::string>& words = command.launch.arguments;
  if (words.front() != "train")
    throw InputError("dp launch runs training only, expected -- train and its options after it");
  for (int restarts = 0;; ++restarts) {
    const LaunchEnd end = launch_ranks(command.launch);
    if (end.exit_code == 0) return 0;
    std::fprintf(stderr, "dp: %s\n", end.complaint.c_str());
    // Neither a mistake nor a wish goes away by itself.
    if (end.exit_code == kWrongInput || end.exit_code == kInterrupted) return end.exit_code;
    if (restarts == command.max_restarts) return end.exit_code;
    if (std::ranges::find(words, "--resume") == words.end()) words.emplace_back("--resume");
    std::fprintf(stderr, "dp: restart %d of %d, from the last checkpoint\n", restarts + 1,
                 command.max_restarts);
  }
}

}  // namespace

Run add_launch(CLI::App& app) {
  auto command = std::make_shared<LaunchCommand>();
  app.add_option("-n,--ranks", command->launch.ranks, "processes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--threads-per-rank", command->launch.threads_per_rank,
                 "threads of each process (default: its share of the cores)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--max-restarts", command->max_restarts,
                 "how often to restart all ranks with --resume after one is lost")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--patience", command->launch.patience,
                 "seconds after the first failure at which ranks that still run are killed")
      ->check(finite_range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("command", command->launch.arguments, "what each process runs, after --")
      ->type_name("-- train ...")
      ->required();
  app.footer("Example: dp launch -n 2 --max-restarts 3 -- train word-problem --out runs/s3");
  return [command] { return launch(*command); };
}

}  // namespace dp::cli
