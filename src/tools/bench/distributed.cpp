// dp bench distributed: a training step of several ranks against one process with as many cores.
#include <unistd.h>
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "tools/command.h"
#include "tools/bench/rank_step.h"
#include "dist/launcher.h"
#include "tools/bench/machine.h"
#include "tools/model_path.h"
#include "nn/model_size.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kLeastEfficiency = 0.85;
constexpr double kSameMachine = std::numeric_limits<double>::infinity();  // no line

struct BenchDistributedOptions {
  std::string model, part;
  int64_t batch = 4, length = 1024;
  std::vector<int> ranks = {2};
  double seconds = 10;
  int rounds = 2;
  JsonOption json;
  ThreadsOption threads;
};

ModelConfig bench_config(const BenchDistributedOptions& options) {
  return options.model.empty() ? hidden_512_config() : find_model_config(options.model);
}

// What a rank does that the command has started, or mpirun, or Slurm.
int bench_rank(const BenchDistributedOptions& options) {
  const std::optional<Ranks> ranks = ranks_from_environment();
  options.threads.apply();
  std::unique_ptr<World> world;
  if (ranks) world = std::make_unique<World>(*ranks, std::chrono::minutes(2), "dp " DP_VERSION);
  const RankTiming timing =
      time_rank({bench_config(options), options.batch, options.length}, options.seconds, world.get());
  if (world && world->rank() != 0) return 0;
  write_file_atomically(options.part, to_json(timing).dump() + "\n");
  return 0;
}

RankTiming run_ranks(const BenchDistributedOptions& options, int ranks, int threads) {
  const auto part = std::filesystem::temp_directory_path() /
                    ("dp-bench-distributed-" + std::to_string(getpid()) + ".json");
  LaunchOptions launch;
  launch.ranks = ranks;
  launch.threads_per_rank = threads;
  launch.arguments = {"bench",     "distributed",
                      "--part",    part.string(),
                      "--batch",   std::to_string(options.batch),
                      "--length",  std::to_string(options.length),
                      "--seconds", std::to_string(options.seconds / options.rounds)};
  if (!options.model.empty())
    launch.arguments.insert(launch.arguments.end(), {"--model", options.model});
  if (const LaunchEnd end = launch_ranks(launch); end.exit_code != 0)
    throw std::runtime_error(end.complaint);
  std::ifstream file(part);
  const RankTiming timing = parse_rank_timing(ordered_json::parse(file));
  std::filesystem::remove(part);
  return timing;
}

void keep_best(RankTiming& best, const RankTiming& timing) {
  if (best.step_ms == 0) best = timing;
  best.step_ms = std::min(best.step_ms, timing.step_ms);
  best.compute_ms = std::min(best.compute_ms, timing.compute_ms);
  best.update_ms = std::min(best.update_ms, timing.update_ms);
  best.latency_ms = std::min(best.latency_ms, timing.latency_ms);
}

// The paper's largest model, on machines that one has.
void print_prediction(const CostModel& model) {
  const double parameters =
      static_cast<double>(model_size(find_model_config("805m_n3")).parameters());
  constexpr int kNodes = 8;
  constexpr double kTenGigabit = 1.25e6, kTokens = 524288;  // bytes/ms; of all nodes
  std::printf(
      "\nBy these constants, %s parameters and %.0fK tokens per step on %d nodes at 10 Gbit/s, "
      "each sending %.1f GB:\n",
      format_count(parameters).c_str(), kTokens / 1024, kNodes,
      1e-9 * CostModel::bytes_sent(kNodes, parameters));
  for (const int cores : {2, 16, 64, 256}) {
    const double alone = model.step_ms(1, cores, kTenGigabit, parameters, kTokens);
    const double together = model.step_ms(kNodes, kNodes * cores, kTenGigabit, parameters, kTokens);
    std::printf("  nodes of %3d cores: %6.0f s per step, %.2f of %d times one node's speed\n",
                cores, 1e-3 * together, alone / together / kNodes, kNodes);
  }
}

int bench_distributed(const BenchDistributedOptions& options) {
  if (!options.part.empty()) return bench_rank(options);
  options.json.check();
  if (const int most = *std::ranges::max_element(options.ranks); options.batch < most)
    throw InputError("--batch " + std::to_string(options.batch) + " is too small for " +
                     std::to_string(most) + " ranks, expected a sequence for each");
  const int cores = options.threads.apply();
  const ModelConfig config = bench_config(options);
  std::printf(
      "%s, %d cores; %s parameters, B %ld, T %ld; the best of %d rounds that take turns.\n\n",
      cpu_name().c_str(), cores,
      format_count(static_cast<double>(model_size(config).parameters())).c_str(), options.batch,
      options.length, options.rounds);
  std::fflush(stdout);
  std::map<int, RankTiming> timings;
  for (int round = 0; round < options.rounds; ++round) {
    keep_best(timings[1], run_ranks(options, 1, cores));
    for (const int n : options.ranks)
      keep_best(timings[n], run_ranks(options, n, std::max(1, cores / n)));
  }
  const CostModel model = CostModel::fit(timings.at(1), timings.at(options.ranks.front()), cores);
  std::printf("%5s %7s | %9s %10s | %10s %12s | %s\n", "ranks", "threads", "step ms", "compute ms",
              "model ms", "MB sent/step", "efficiency");
  // The target is one of this model on batches of this size.
  const bool judged_here = options.model.empty() && options.batch * options.length == 4096;
  auto rows = ordered_json::array();
  for (const auto& [n, timing] : timings) {
    const double predicted =
        model.step_ms(n, cores, kSameMachine, static_cast<double>(timing.parameters),
                      static_cast<double>(timing.tokens));
    const double efficiency = timings.at(1).step_ms / timing.step_ms;
    char judged[32] = "";
    if (n == 2 && judged_here)
      std::snprintf(judged, sizeof judged, "(>=%.2f %s)", kLeastEfficiency,
                    verdict(efficiency >= kLeastEfficiency));
    std::printf("%5d %7d | %9.1f %10.1f | %10.1f %12.1f | %.2f %s\n", n, std::max(1, cores / n),
                timing.step_ms, timing.compute_ms, predicted,
                1e-6 * static_cast<double>(timing.bytes_sent), efficiency, judged);
    ordered_json row = to_json(timing);
    row["threads"] = std::max(1, cores / n);
    row["model_ms"] = predicted;
    row["efficiency"] = efficiency;
    rows.push_back(std::move(row));
  }
  std::printf(
      "\nOn one core a parameter costs %.3f ns per token and %.2f ns per update, a byte to another "
      "rank %.2f ns; a small sum takes %.2f ms.\nThe model has these from the rows of 1 and of %d "
      "ranks, and "
      "predicts the others.\n",
      model.compute_ns, model.update_ns, model.sending_ns, model.latency_ms, options.ranks.front());
  print_prediction(model);
  options.json.write({{"cpu", cpu_name()},
                      {"cores", cores},
                      {"compute_ns", model.compute_ns},
                      {"update_ns", model.update_ns},
                      {"sending_ns", model.sending_ns},
                      {"latency_ms", model.latency_ms},
                      {"rows", rows}});
  return 0;
}

}  // namespace

Run add_bench_distributed(CLI::App& app) {
  auto options = std::make_shared<BenchDistributedOptions>();
  app.add_option("--model", options->model,
                 "a model directory, config.json or preset instead of the hidden-512 one")
      ->type_name("DIR_OR_CONFIG");
  app.add_option("--ranks", options->ranks, "numbers of ranks to compare with one process")
      ->delimiter(',')
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  app.add_option("--batch", options->batch, "sequences per step, of all ranks")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--length", options->length, "tokens per sequence")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--seconds", options->seconds, "time to spend per number of ranks")
      ->check(finite_range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--rounds", options->rounds, "turns that this time is spent in")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--part", options->part,
                 "internal: run as one of the ranks named in the environment and write the times to this file")
      ->type_name("FILE");
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return bench_distributed(*options); };
}

}  // namespace dp::cli
