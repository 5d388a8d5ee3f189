// dp bench decode: generating beside reading memory, and how soon a saved model starts.
#include <ATen/ATen.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/command.h"
#include "tools/decode_bench.h"
#include "tools/machine.h"
#include "tools/model_path.h"
#include "nn/model_size.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kLeastRatio = 0.75, kMostFirstToken = 1.0;

struct BenchDecodeOptions {
  std::string model = "340m_n1", load_model = "392m_n2";
  double seconds = 10;
  JsonOption json;
  ThreadsOption threads;
};

// Random weights of the wanted dtype: matrices only, as load_model() keeps them.
LanguageModel random_model(const ModelConfig& config, at::ScalarType dtype) {
  LanguageModel model(config);
  initialise(model, /*seed=*/1);
  for (const auto& [name, parameter] : model.parameters())
    if (parameter->shape.size() == 2) parameter->value = parameter->value.to(dtype);
  return model;
}

int bench_decode(const BenchDecodeOptions& options) {
  const ModelConfig config = find_model_config(options.model);
  const ModelConfig load_config = find_model_config(options.load_model);
  options.json.check();
  const int threads = options.threads.apply();
  std::printf("%s, %d threads; %s, %s parameters, random weights, one sequence.\n\n",
              cpu_name().c_str(), threads, options.model.c_str(),
              format_count(static_cast<double>(model_size(config).parameters())).c_str());
  std::printf("%-8s | %8s %9s | %9s %11s | %s\n", "weights", "tokens/s", "MB/token", "GB/s",
              "read GB/s", "ratio");
  auto rows = ordered_json::array();
  for (const auto& [name, dtype] :
       {std::pair("float32", at::kFloat), {"bfloat16", at::kBFloat16}}) {
    const auto model = std::make_shared<const LanguageModel>(random_model(config, dtype));
    const DecodeSpeed speed = time_decoding(model, options.seconds);
    std::printf("%-8s | %8.1f %9.0f | %9.2f %11.2f | %.2f (>=%.2f %s)\n", name,
                speed.tokens_per_second, speed.bytes_per_token * 1e-6,
                speed.tokens_per_second * speed.bytes_per_token * 1e-9,
                speed.read_bytes_per_second * 1e-9, speed.ratio(), kLeastRatio,
                verdict(speed.ratio() >= kLeastRatio));
    std::fflush(stdout);
    rows.push_back({{"weights", name},
                    {"tokens_per_second", speed.tokens_per_second},
                    {"bytes_per_token", speed.bytes_per_token},
                    {"read_bytes_per_second", speed.read_bytes_per_second},
                    {"ratio", speed.ratio()}});
  }
  const LoadTiming load =
      time_loading(random_model(load_config, at::kFloat),
                   std::filesystem::read_symlink("/proc/self/exe").string(), threads);
  std::printf(
      "\n%s from disk, %.2f GB in the page cache: first token of a new process after %.2f s "
      "(<%.1f %s); reading the file takes %.2f s\n",
      options.load_model.c_str(), load.file_bytes * 1e-9, load.first_token_seconds, kMostFirstToken,
      verdict(load.first_token_seconds < kMostFirstToken), load.read_seconds);
  options.json.write({{"cpu", cpu_name()},
                      {"threads", threads},
                      {"model", options.model},
                      {"rows", rows},
                      {"load",
                       {{"model", options.load_model},
                        {"bytes", load.file_bytes},
                        {"first_token_seconds", load.first_token_seconds},
                        {"read_seconds", load.read_seconds}}}});
  return 0;
}

}  // namespace

Run add_bench_decode(CLI::App& app) {
  auto options = std::make_shared<BenchDecodeOptions>();
  app.add_option("--model", options->model, "config.json or preset to decode with")
      ->capture_default_str();
  app.add_option("--load-model", options->load_model,
                 "config.json or preset to save, load and start from")
      ->capture_default_str();
  app.add_option("--seconds", options->seconds, "time to spend per dtype")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return bench_decode(*options); };
}

}  // namespace dp::cli
