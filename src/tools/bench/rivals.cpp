// dp bench rivals: training steps of every model against DeltaNet's.
#include <CLI/App.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/bench/machine.h"
#include "tools/bench/training_step.h"
#include "io/model_name.h"
#include "nn/model_size.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

struct BenchRivalsOptions {
  ModelConfig model;
  int64_t batch = 64, length = 128;
  double seconds = 30;
  JsonOption json;
  ThreadsOption threads;
};

struct Rival {
  ModelConfig config;
  double most;  // times DeltaNet's step
};

// The first is what the others are measured by. sLSTM goes through its tokens one by one.
std::vector<Rival> rivals(const ModelConfig& base) {
  constexpr double kMost = 5, kMostSequential = 15;
  std::vector<Rival> all;
  const auto add = [&](Architecture architecture, int64_t num_householder, double most) {
    ModelConfig c = base;
    c.architecture = architecture;
    c.num_householder = num_householder;
    c.use_forget_gate = c.architecture == Architecture::kGatedDeltaNet || c.architecture == Architecture::kRwkv7;
    all.push_back({c, most});
  };
  add(Architecture::kDeltaNet, 1, 1);
  add(Architecture::kGatedDeltaNet, 1, kMost);
  add(Architecture::kDeltaProduct, 2, kMost);
  add(Architecture::kDeltaProduct, 4, kMost);
  add(Architecture::kTransformer, 1, kMost);
  add(Architecture::kGla, 1, kMost);
  add(Architecture::kMamba, 1, kMost);
  add(Architecture::kMlstm, 1, kMost);
  add(Architecture::kRwkv7, 1, kMost);
  add(Architecture::kRwkv7, 2, kMost);
  add(Architecture::kSlstm, 1, kMostSequential);
  return all;
}

int bench_rivals(const BenchRivalsOptions& options) {
  options.json.check();
  const int threads = options.threads.apply();
  const std::vector<Rival> all = rivals(options.model);
  std::vector<TrainShape> shapes;
  for (const Rival& rival : all) {
    check_model_config(rival.config, "the options");
    shapes.push_back({rival.config, options.batch, options.length});
  }
  const ModelConfig& m = options.model;
  std::printf(
      "%s, %d threads; %ld layer%s of width %ld, %ld heads of %ld, B %ld, T %ld; the best of steps "
      "that take turns for %.3g s.\n\n",
      cpu_name().c_str(), threads, m.num_hidden_layers, m.num_hidden_layers == 1 ? "" : "s",
      m.hidden_size, m.num_heads, m.head_dim, options.batch, options.length, options.seconds);
  std::printf("%-24s %8s %12s %10s | %s\n", "model", "params", "state bytes", "step ms",
              "times DeltaNet's");
  std::fflush(stdout);
  const std::vector<double> ms = time_steps(shapes, options.seconds);
  auto rows = ordered_json::array();
  for (size_t i = 0; i < all.size(); ++i) {
    const ModelSize size = model_size(all[i].config);
    const double ratio = ms[i] / ms[0];
    const std::string name = model_name(all[i].config);
    const std::string state = size.state_bytes_per_token > 0
                                  ? std::to_string(size.state_bytes_per_token) + "/token"
                                  : std::to_string(size.state_bytes);
    std::printf("%-24s %8s %12s %10.1f | %5.2f  (<=%.0f %s)\n", name.c_str(),
                format_count(static_cast<double>(size.parameters())).c_str(), state.c_str(), ms[i],
                ratio, all[i].most, verdict(ratio <= all[i].most));
    rows.push_back({{"model", name},
                    {"parameters", size.parameters()},
                    {"state_bytes", size.state_bytes},
                    {"state_bytes_per_token", size.state_bytes_per_token},
                    {"step_ms", ms[i]},
                    {"ratio", ratio},
                    {"limit", all[i].most}});
  }
  options.json.write({{"cpu", cpu_name()},
                      {"threads", threads},
                      {"B", options.batch},
                      {"T", options.length},
                      {"rows", rows}});
  return 0;
}

}  // namespace

Run add_bench_rivals(CLI::App& app) {
  auto options = std::make_shared<BenchRivalsOptions>();
  ModelConfig& m = options->model;
  m.vocab_size = 64, m.hidden_size = 128, m.num_hidden_layers = 1, m.num_heads = 4;
  m.head_dim = 32, m.expand_v = 1, m.allow_neg_eigval = true, m.use_output_gate = false;
  const auto positive = CLI::Range(1, 1 << 20);
  app.add_option("--hidden", m.hidden_size, "model width")->check(positive)->capture_default_str();
  app.add_option("--layers", m.num_hidden_layers, "blocks")->check(positive)->capture_default_str();
  app.add_option("--heads", m.num_heads, "heads")->check(positive)->capture_default_str();
  app.add_option("--head-dim", m.head_dim, "width of keys and values")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--batch", options->batch, "sequences per step")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--length", options->length, "tokens per sequence")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--seconds", options->seconds, "time to spend")
      ->check(finite_range(0.0, 3600.0))
      ->capture_default_str();
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return bench_rivals(*options); };
}

}  // namespace dp::cli
