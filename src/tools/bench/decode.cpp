// dp bench decode: generating beside reading memory, and how soon a saved model starts.
#include <ATen/ATen.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/timer.h"
#include "infer/session.h"
#include "nn/model_size.h"
#include "nn/pretrained.h"
#include "ops/aten_executor.h"
#include "tools/bench/machine.h"
#include "tools/command.h"
#include "tools/model_path.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct DecodeSpeed {
  double tokens_per_second = 0;
  double bytes_per_token = 0;        // weights read once, state read and written
  double read_bytes_per_second = 0;  // a plain pass over memory, in turns with the decoding
  double ratio() const { return tokens_per_second * bytes_per_token / read_bytes_per_second; }
};

struct LoadTiming {
  double file_bytes = 0;
  double read_seconds = 0;         // reading the file's bytes once, from the page cache
  double first_token_seconds = 0;  // a new process, from its start to its first token
};

constexpr size_t kReadBytes = size_t{1} << 30;  // far beyond every cache
constexpr int kTokensPerRound = 4;

double bytes_per_token(const LanguageModel& model) {
  double bytes = 2.0 * static_cast<double>(model_size(model.config()).state_bytes);
  for (const auto& [name, value] : model.named_values()) {
    const bool only_a_row =
        name == "model.embeddings.weight" && !model.config().tie_word_embeddings;
    bytes +=
        static_cast<double>(value.nbytes()) / static_cast<double>(only_a_row ? value.size(0) : 1);
  }
  return bytes;
}

/// A directory that goes away with this object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (fs::temp_directory_path() / "dp-bench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("cannot make a temporary directory in " +
                               fs::temp_directory_path().string());
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

double read_seconds(const fs::path& file) {
  std::vector<char> buffer(size_t{1} << 20);
  std::ifstream stream(file, std::ios::binary);
  const Timer timer;
  while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) {
  }
  return timer.seconds();
}

double first_token_seconds(const std::string& program, const fs::path& model, int threads) {
  const std::string command = "'" + program + "' generate '" + model.string() +
                              "' --ids 1 --max-tokens 1 --ignore-eos --threads " +
                              std::to_string(threads);
  const Timer timer;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  const int first = std::fgetc(pipe);
  const double seconds = timer.seconds();
  while (std::fgetc(pipe) != EOF) {
  }
  if (pclose(pipe) != 0 || first == EOF)
    throw std::runtime_error("generating from the saved model failed; its messages are above");
  return seconds;
}

// One sequence, token after token, for about so many seconds.
DecodeSpeed time_decoding(const std::shared_ptr<const LanguageModel>& model, double seconds) {
  const std::vector<uint64_t> memory(kReadBytes / sizeof(uint64_t), 1);
  AtenExecutor executor;
  Session session(model);
  session.feed(0);
  read_memory(memory.data(), memory.size(), executor);
  BestTime token, read;
  const Timer timer;
  int64_t next = 0;
  do {
    token.time([&] { session.feed(++next % model->config().vocab_size); }, kTokensPerRound);
    read.time([&] { read_memory(memory.data(), memory.size(), executor); });
  } while (timer.seconds() < seconds);
  return {1 / token.seconds(), bytes_per_token(*model),
          static_cast<double>(kReadBytes) / read.seconds()};
}

// Saves the model to a temporary directory and lets `program` generate from it.
LoadTiming time_loading(const LanguageModel& model, const std::string& program, int threads) {
  const TemporaryDirectory directory;
  save_model(model, directory.path());
  LoadTiming timing;
  for (const fs::directory_entry& item : fs::directory_iterator(directory.path()))
    timing.file_bytes += static_cast<double>(item.file_size());
  timing.read_seconds = timing.first_token_seconds = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 3; ++round) {  // the first one may find the page cache cold
    timing.read_seconds =
        std::min(timing.read_seconds, read_seconds(directory.path() / "model.safetensors"));
    timing.first_token_seconds = std::min(timing.first_token_seconds,
                                          first_token_seconds(program, directory.path(), threads));
  }
  return timing;
}

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
