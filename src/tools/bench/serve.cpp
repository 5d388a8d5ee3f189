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

// How many times the tokens of one stream any program could decode that reads the weights as fast as memory for one, and
// multiplies them as fast as sgemm for many: what this machine allows. 0 without OpenBLAS.
double most_times(const runtime::Model& model, size_t streams, Executor& executor) {
  const SgemmFunction sgemm = find_sgemm(executor.num_threads());
  if (!sgemm) return 0;
  constexpr size_t kSize = 1024;
  std::vector<float> x(streams * kSize, 0.5f), w(kSize * kSize, 0.5f), y(streams * kSize);
  const std::vector<uint64_t> memory((size_t{1} << 28) / sizeof(uint64_t), 1);
  BestTime product;
  double read = 0;
  for (int round = 0; round < 5; ++round) {
    product.time([&] { sgemm(x.data(), streams, kSize, w.data(), kSize, y.data()); }, 8);
    for (const size_t each : {1, 4}) read = std::max(read, read_memory(memory, each, executor));
  }
  const auto weights = static_cast<double>(model.bytes_per_token()) / sizeof(float);
  const double one = static_cast<double>(model.bytes_per_token()) / read;
  const double all = weights * product.seconds() / (kSize * kSize);
  return static_cast<double>(streams) * one / all;
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
  const double limit = most_times(*model, static_cast<size_t>(most), pool);
  if (limit > 0)
    std::printf("\n%ld streams with products as fast as sgemm, one stream as fast as memory: %.1f times\n", most, limit);
  options.json.write({{"cpu", cpu_name()},
                      {"threads", threads},
                      {"limit_times_one_stream", limit},
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
