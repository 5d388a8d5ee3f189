// dp bench serve: many streams at once against one alone.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/timer.h"
#include "runtime/model_size.h"
#include "serve/engine.h"
#include "tools/bench/model.h"
#include "tools/bench/sgemm_peer.h"
#include "tools/command.h"
#include "tools/bench/machine.h"
#include "tools/model_path.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kLeastTimes = 14;  // at the largest number of streams

struct BenchServeOptions {
  std::string model;
  std::vector<int64_t> streams = {1, 8, 64};
  int64_t prompt_tokens = 8, tokens = 128, rounds = 3;
  JsonOption json;
  ThreadsOption threads;
};

std::shared_ptr<const runtime::Model> find_model(const std::string& path) {
  namespace fs = std::filesystem;
  if (!path.empty() && fs::is_directory(path) && !fs::is_empty(path))
    return runtime::Model::open(path);
  return random_model(path.empty() ? small_config() : find_model_config(path),
                      WeightFormat::kFloat32);
}

// What a step takes at least, measured on this machine: weights are multiplied as fast as OpenBLAS does it, or read as
// fast as memory; states are read and written as fast as memory.
struct StepLimits {
  double product_seconds = 0;  // of all streams; 0 without OpenBLAS
  double states_seconds = 0;   // of all streams
  double one_seconds = 0;      // of one stream: weights are read once
  double gflop = 0, state_bytes = 0;

  double together() const { return product_seconds + states_seconds; }
};

StepLimits measure_limits(const runtime::Model& model, size_t streams, Executor& executor) {
  StepLimits limits;
  const auto weight_bytes = static_cast<double>(model.bytes_per_token());
  const auto weights = weight_bytes / sizeof(float);
  limits.gflop = 2e-9 * weights * static_cast<double>(streams);
  limits.state_bytes = static_cast<double>(streams) *
                       static_cast<double>(runtime::model_size(model.config()).state_bytes);
  constexpr size_t kSize = 1024;
  const SgemmFunction sgemm = find_sgemm(executor.num_threads());
  std::vector<float> x(streams * kSize, 0.5f), w(kSize * kSize, 0.5f), y(streams * kSize);
  const std::vector<uint64_t> memory((size_t{1} << 28) / sizeof(uint64_t), 1);
  std::vector<float> states(memory.size() * 2, 1.0f);  // as large: neither fits a cache
  const size_t parts = states.size() * sizeof(float) >> 17;
  BestTime product, scaled;
  double read = 0;
  for (int round = 0; round < 5; ++round) {
    if (sgemm) product.time([&] { sgemm(x.data(), streams, kSize, w.data(), kSize, y.data()); }, 8);
    for (const size_t each : {1, 4}) read = std::max(read, read_memory(memory, each, executor));
    scaled.time([&] { scale_in_place(states.data(), states.size(), parts, 0.999f, executor); });
  }
  const double per_byte = scaled.seconds() / static_cast<double>(states.size() * sizeof(float));
  limits.states_seconds = limits.state_bytes * per_byte;
  limits.one_seconds = weight_bytes / read + limits.states_seconds / static_cast<double>(streams);
  if (sgemm) limits.product_seconds = weights * product.seconds() / (kSize * kSize);
  return limits;
}

void print_limits(const StepLimits& limits, double streams, double step_seconds,
                  double one_seconds) {
  std::printf(
      "\na step of %.0f streams takes %.2f ms: %.2f GFLOP of products, with sgemm %.2f ms, and "
      "%.0f MB of states, read and "
      "written as fast as memory %.2f ms, together %.2f ms\n"
      "a step of one stream takes %.2f ms: its weights and state as fast as memory %.2f ms\n"
      "many streams at these limits against one as measured: %.1f times; against one at its limit: "
      "%.1f times\n",
      streams, 1e3 * step_seconds, limits.gflop, 1e3 * limits.product_seconds,
      1e-6 * limits.state_bytes, 1e3 * limits.states_seconds, 1e3 * limits.together(),
      1e3 * one_seconds, 1e3 * limits.one_seconds, streams * one_seconds / limits.together(),
      streams * limits.one_seconds / limits.together());
}

/// Waits for every copy of every request.
class Gate : public serve::Listener {
 public:
  explicit Gate(int64_t streams) : streams_(streams), left_(streams) {}
  bool wanted() const override { return true; }
  void on_prompt(std::vector<serve::ScoredToken>) override {}
  bool on_token(int64_t, serve::ScoredToken, bool) override {
    const std::scoped_lock lock(mutex_);
    if (tokens_++ == 0) timer_ = Timer();
    return true;
  }
  void on_state(int64_t, const runtime::State&) override {}
  void on_end(int64_t, serve::End) override {
    const std::scoped_lock lock(mutex_);
    if (--left_ > 0) return;
    seconds_ = timer_.seconds();
    changed_.notify_one();
  }
  /// Tokens per second, from the first one on; the first of each stream are not counted.
  double wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_ == 0; });
    return static_cast<double>(tokens_ - streams_) / seconds_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const int64_t streams_;
  int64_t left_, tokens_ = 0;
  Timer timer_;
  double seconds_ = 0;
};

double tokens_per_second(serve::Engine& engine, const BenchServeOptions& options, int64_t streams,
                         int64_t vocabulary) {
  const auto gate = std::make_shared<Gate>(streams);
  std::vector<serve::GenerationRequest> requests;
  for (int64_t i = 0; i < streams; ++i) {
    serve::GenerationRequest request;
    for (int64_t t = 0; t < options.prompt_tokens; ++t)
      request.prompt.push_back((17 * i + 5 * t) % vocabulary);
    request.max_tokens = options.tokens;
    request.listener = gate;
    requests.push_back(std::move(request));
  }
  engine.submit(std::move(requests));
  return gate->wait();
}

int bench_serve(const BenchServeOptions& options) {
  options.json.check();
  const int threads = options.threads.count();
  const auto model = find_model(options.model);
  std::printf(
      "%s, %d threads; %s parameters, %s of state per stream; greedy, the best of %ld rounds that "
      "take turns.\n\n",
      cpu_name().c_str(), threads,
      format_count(static_cast<double>(runtime::model_size(model->config()).parameters())).c_str(),
      format_count(static_cast<double>(runtime::model_size(model->config()).state_bytes)).c_str(),
      options.rounds);
  std::fflush(stdout);
  const int64_t most = std::ranges::max(options.streams);
  serve::EngineOptions engine_options;
  engine_options.threads = threads;
  engine_options.most_rows = most;
  engine_options.cache_bytes = 0;  // every prompt is taken in
  serve::Engine engine(model, engine_options);
  std::vector<int64_t> streams = options.streams;
  if (std::ranges::find(streams, 1) == streams.end()) streams.insert(streams.begin(), 1);
  std::vector<double> best(streams.size());
  for (int64_t round = 0; round < options.rounds; ++round)
    for (size_t i = 0; i < streams.size(); ++i)
      best[i] = std::max(
          best[i], tokens_per_second(engine, options, streams[i], model->config().vocab_size));
  const double alone = best[std::ranges::find(streams, 1) - streams.begin()];
  std::printf("%8s | %8s %10s | %s\n", "streams", "tokens/s", "per stream", "times one stream");
  auto rows = ordered_json::array();
  for (size_t i = 0; i < streams.size(); ++i) {
    const double times = best[i] / alone;
    std::printf("%8ld | %8.1f %10.1f | %.2f", streams[i], best[i],
                best[i] / static_cast<double>(streams[i]), times);
    if (streams[i] >= 64) std::printf(" (>=%.1f %s)", kLeastTimes, verdict(times >= kLeastTimes));
    std::printf("\n");
    rows.push_back(
        {{"streams", streams[i]}, {"tokens_per_second", best[i]}, {"times_one_stream", times}});
  }
  ThreadPool pool(threads);
  const StepLimits limits = measure_limits(*model, static_cast<size_t>(most), pool);
  const auto many = static_cast<double>(most);
  const double step_seconds = many / best[std::ranges::find(streams, most) - streams.begin()];
  if (limits.product_seconds > 0) print_limits(limits, many, step_seconds, 1 / alone);
  options.json.write({{"cpu", cpu_name()},
                      {"threads", threads},
                      {"limits",
                       {{"step_s", step_seconds},
                        {"gflop", limits.gflop},
                        {"products_s", limits.product_seconds},
                        {"state_bytes", limits.state_bytes},
                        {"states_s", limits.states_seconds},
                        {"one_stream_s", limits.one_seconds}}},
                      {"model", options.model.empty() ? "small" : options.model},
                      {"parameters", runtime::model_size(model->config()).parameters()},
                      {"prompt_tokens", options.prompt_tokens},
                      {"tokens", options.tokens},
                      {"rows", rows}});
  return 0;
}

}  // namespace

Run add_bench_serve(CLI::App& app) {
  auto options = std::make_shared<BenchServeOptions>();
  app.add_option(
      "--model", options->model,
      "model directory, or config.json or preset for random weights (default: a small one)");
  app.add_option("--streams", options->streams,
                 "numbers of sequences decoded together, each measured: 1,8,64")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--prompt-tokens", options->prompt_tokens, "length of each stream's prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--tokens", options->tokens, "tokens that each stream generates")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option("--rounds", options->rounds,
                 "times that each number is measured; the fastest counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return bench_serve(*options); };
}

}  // namespace dp::cli
