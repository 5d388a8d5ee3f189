// dp bench train: whole training steps beside their matrix products in the same run.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/matched.h"
#include "tools/command.h"
#include "tools/bench/machine.h"
#include "tools/model_path.h"
#include "tools/bench/torch_peer.h"
#include "tools/bench/training_step.h"
#include "nn/model_size.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

struct BenchTrainOptions {
  std::string model;
  std::optional<int64_t> batch, length;
  double seconds = 10;
  std::string peer;
  MatchedBench matched;
  JsonOption json;
  ThreadsOption threads;
};

struct Row {
  std::string name;
  TrainShape shape;
  std::optional<double> target;  // most times its products' time
};

std::vector<Row> default_rows() {
  return {{"state tracking", {find_model_config("state_tracking"), 64, 128}, 1.7},
          {"hidden 512", {hidden_512_config(), 4, 1024}, 1.4}};
}

constexpr double kLeastSpeedup = 5;

void print(const Row& row, const TrainTiming& timing) {
  const ModelConfig& c = row.shape.config;
  char judged[32] = "";
  if (row.target)
    std::snprintf(judged, sizeof judged, "(<=%.1f %s)", *row.target,
                  timing.ratio() <= *row.target ? "ok" : "missed");
  std::printf("%-16s %7s | %3ld %5ld %2ld | %9.1f %11.1f | %4.2f %-14s | %9.0f\n", row.name.c_str(),
              format_count(static_cast<double>(model_size(c).parameters())).c_str(),
              row.shape.batch, row.shape.length, c.num_householder, timing.step_ms,
              timing.products_ms, timing.ratio(), judged,
              static_cast<double>(row.shape.batch * row.shape.length) / timing.step_ms * 1e3);
  std::fflush(stdout);
}

// The same step in PyTorch. Adds how many times as long each form takes.
ordered_json print_peer(ordered_json peer, const TrainTiming& timing) {
  for (const char* form : {"loop", "chunked"}) {
    const ordered_json& ms = peer[std::string(form) + "_ms"];
    std::printf("%16s in PyTorch, recurrence %-9s ", "",
                form == std::string_view("loop") ? "as a loop" : "in chunks");
    if (!ms.is_number()) {
      std::printf("too much memory to measure\n");
      continue;
    }
    const double speedup = ms.get<double>() / timing.step_ms;
    std::printf("%6.0f ms, %.1f times as long", ms.get<double>(), speedup);
    if (form == std::string_view("loop"))
      std::printf(" (>=%.0f %s)", kLeastSpeedup, speedup >= kLeastSpeedup ? "ok" : "missed");
    std::printf("\n");
    peer[std::string(form) + "_speedup"] = speedup;
  }
  return peer;
}

int bench_train(const BenchTrainOptions& options) {
  std::vector<Row> rows = default_rows();
  if (!options.model.empty())
    rows = {{options.model,
             {find_model_config(options.model), options.batch.value_or(64),
              options.length.value_or(128)},
             std::nullopt}};
  options.json.check();
  if (!options.peer.empty()) require_torch_peer();
  const int threads = options.threads.apply();
  if (!options.matched.target.empty()) {
    std::printf("%s, %d threads. ", cpu_name().c_str(), threads);
    MatchedBench matched = options.matched;
    matched.seconds = options.seconds;
    matched.batch = options.batch.value_or(matched.batch);
    matched.length = options.length.value_or(matched.length);
    options.json.write(
        {{"cpu", cpu_name()}, {"threads", threads}, {"rows", bench_matched(matched)}});
    return 0;
  }
  std::printf("%s, %d threads; the best of rounds that take turns for %.3g s per model.\n",
              cpu_name().c_str(), threads, options.seconds);
  std::printf(
      "A step is forward, loss, backward, clipping and AdamW; its products are those of its "
      "matrices alone, forward and backward.\n\n");
  std::printf("%-16s %7s | %3s %5s %2s | %9s %11s | %-19s | %9s\n", "model", "params", "B", "T",
              "n", "step ms", "products ms", "step / products", "tokens/s");
  auto results = ordered_json::array();
  for (const Row& row : rows) {
    const TrainTiming timing = time_training(row.shape, options.seconds);
    print(row, timing);
    ordered_json result = {{"model", row.name},
                           {"B", row.shape.batch},
                           {"T", row.shape.length},
                           {"n", row.shape.config.num_householder},
                           {"parameters", model_size(row.shape.config).parameters()},
                           {"step_ms", timing.step_ms},
                           {"products_ms", timing.products_ms},
                           {"ratio", timing.ratio()}};
    if (!options.peer.empty()) {
      const ordered_json peer =
          run_torch_training(to_json(row.shape.config), row.shape.batch, row.shape.length, threads);
      result["peer"] = print_peer(peer, timing);
    }
    results.push_back(std::move(result));
  }
  options.json.write({{"cpu", cpu_name()}, {"threads", threads}, {"rows", results}});
  return 0;
}

}  // namespace

Run add_bench_train(CLI::App& app) {
  auto options = std::make_shared<BenchTrainOptions>();
  app.add_option("--model", options->model,
                 "a model directory, config.json or preset to measure instead of the default ones")
      ->type_name("DIR_OR_CONFIG");
  CLI::Option* matched =
      app.add_option("--matched", options->matched.target,
                     "tokens/s against factors per token, in models of this many parameters: 20M")
          ->type_name("COUNT");
  app.add_option("--num-householder", options->matched.num_householder,
                 "factors per token of the models to compare, with --matched")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->needs(matched)
      ->capture_default_str();
  app.add_option("--by", options->matched.by,
                 "what makes room for more factors, with --matched: heads, head-dim or mlp")
      ->check(CLI::IsMember({"heads", "head-dim", "mlp"}))
      ->needs(matched)
      ->capture_default_str();
  app.add_option("--batch", options->batch,
                 "sequences per step (default: 64 with --model, 4 with --matched)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--length", options->length,
                 "tokens per sequence (default: 128 with --model, 512 with --matched)")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--seconds", options->seconds, "time to spend per model")
      ->check(finite_range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--peer", options->peer, "also time the same step of PyTorch models, in Python")
      ->type_name("torch")
      ->check(CLI::IsMember({"torch"}));
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return bench_train(*options); };
}

}  // namespace dp::cli
