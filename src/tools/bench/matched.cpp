#include "tools/bench/matched.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/model_path.h"
#include "tools/bench/training_step.h"
#include "nn/model_size.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

// Of models without a size in the paper: 8 layers and a small vocabulary, so that the mixers are a good part of the
// whole; the widest that one factor per token leaves room for, in steps of 64.
ModelConfig base_of_size(int64_t parameters) {
  constexpr int64_t kStep = 64;
  ModelConfig config = find_model_config("392m_n1");
  config.num_hidden_layers = 8, config.head_dim = kStep, config.vocab_size = 8192;
  const auto with_width = [&](int64_t hidden) {
    config.hidden_size = hidden;
    config.num_heads = hidden / kStep;
    return config;
  };
  int64_t hidden = kStep;
  while (model_size(with_width(hidden + kStep)).parameters() <= parameters) hidden += kStep;
  return with_width(hidden);
}

}  // namespace

ordered_json bench_matched(const MatchedBench& bench) {
  const int64_t target = parse_count(bench.target);
  const MatchBy by = parse_match_by(bench.by);
  std::vector<TrainShape> shapes;
  for (const int64_t n : bench.num_householder) {
    ModelConfig base = base_of_size(target);
    base.num_householder = n;
    shapes.push_back({match_size(base, target, by), bench.batch, bench.length});
  }
  const auto models = static_cast<double>(shapes.size());
  std::printf(
      "Models of %s parameters, matched by %s; a step is %ld sequences of %ld tokens.\n"
      "The models take turns for %.3g s; the best of each counts.\n\n",
      bench.target.c_str(), bench.by.c_str(), bench.batch, bench.length, models * bench.seconds);
  std::fflush(stdout);
  const std::vector<double> ms = time_steps(shapes, models * bench.seconds);
  std::printf("%2s  %6s  %-12s  %10s  %9s  %9s  %s\n", "n", "hidden", "heads", "parameters",
              "step ms", "tokens/s", "of the first's");
  auto rows = ordered_json::array();
  for (size_t i = 0; i < shapes.size(); ++i) {
    const ModelConfig& c = shapes[i].config;
    const double rate = 1e3 * static_cast<double>(bench.batch * bench.length) / ms[i];
    const double relative = ms[0] / ms[i];
    const int64_t parameters = model_size(c).parameters();
    std::printf(
        "%2ld  %6ld  %3ld of %-5ld  %10s  %9.1f  %9.0f  %.2f %s\n", c.num_householder,
        c.hidden_size, c.num_heads, c.head_dim,
        format_count(static_cast<double>(parameters)).c_str(), ms[i], rate, relative,
        std::string(static_cast<size_t>(std::clamp(20 * relative, 0.0, 60.0)), '#').c_str());
    rows.push_back({{"n", c.num_householder},
                    {"heads", c.num_heads},
                    {"head_dim", c.head_dim},
                    {"hidden_size", c.hidden_size},
                    {"parameters", parameters},
                    {"step_ms", ms[i]},
                    {"tokens_per_second", rate},
                    {"relative", relative}});
  }
  return rows;
}

}  // namespace dp::cli
