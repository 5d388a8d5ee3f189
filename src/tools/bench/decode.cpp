// dp bench decode: generating beside reading memory, prompts beside their products, products beside sgemm.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/timer.h"
#include "kernels/linear.h"
#include "runtime/model_size.h"
#include "runtime/session.h"
#include "tools/bench/model.h"
#include "tools/bench/sgemm_peer.h"
#include "tools/bench/start.h"
#include "tools/command.h"
#include "tools/bench/machine.h"
#include "tools/model_path.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kLeastShares[] = {0.90, 0.85, 0.80, 0.70};  // of read bandwidth, by WeightFormat
constexpr double kLeastOfSgemm = 0.85, kMostOfProducts = 1.3;
constexpr size_t kReadBytes = size_t{1} << 29;  // far beyond every cache
constexpr int kTokensPerRound = 4, kRounds = 3;

struct BenchDecodeOptions {
  std::string model = "340m_n1", load_model = "392m_n2";
  double seconds = 3;
  int64_t prompt_tokens = 2048;
  JsonOption json;
  ThreadsOption threads;
};

struct DecodeSpeed {
  double tokens_per_second = 0;
  double bytes_per_token = 0;        // matrices read once
  double read_bytes_per_second = 0;  // a plain pass over memory, in turns with the decoding
  double ratio() const { return tokens_per_second * bytes_per_token / read_bytes_per_second; }
};

DecodeSpeed time_decoding(const std::shared_ptr<const runtime::Model>& model, double seconds,
                          Executor& executor) {
  const std::vector<uint64_t> memory(kReadBytes / sizeof(uint64_t), 1);
  runtime::Runner runner(model, executor);
  runtime::Session session(runner);
  session.feed(int64_t{0});
  BestTime token;
  double read = 0;
  const Timer timer;
  int64_t next = 0;
  do {
    token.time([&] { session.feed(++next % model->config().vocab_size); }, kTokensPerRound);
    for (const size_t streams : {1, 4})
      read = std::max(read, read_memory(memory, streams, executor));
  } while (timer.seconds() < seconds);
  return {1 / token.seconds(), static_cast<double>(model->bytes_per_token()), read};
}

ordered_json bench_dtypes(const ModelConfig& config, double seconds, Executor& executor) {
  std::printf("%-8s | %8s %9s | %9s %11s | %s\n", "weights", "tokens/s", "MB/token", "GB/s",
              "read GB/s", "ratio");
  auto rows = ordered_json::array();
  for (const WeightFormat format : kWeightFormats) {
    const DecodeSpeed speed = time_decoding(random_model(config, format), seconds, executor);
    const double least = kLeastShares[static_cast<size_t>(format)];
    std::printf("%-8s | %8.1f %9.0f | %9.2f %11.2f | %.2f (>=%.2f %s)\n", dtype_name(format),
                speed.tokens_per_second, speed.bytes_per_token * 1e-6,
                speed.tokens_per_second * speed.bytes_per_token * 1e-9,
                speed.read_bytes_per_second * 1e-9, speed.ratio(), least,
                verdict(speed.ratio() >= least));
    std::fflush(stdout);
    rows.push_back({{"dtype", dtype_name(format)},
                    {"tokens_per_s", speed.tokens_per_second},
                    {"bytes_per_token", speed.bytes_per_token},
                    {"bandwidth_ratio", speed.ratio()},
                    {"read_bytes_per_s", speed.read_bytes_per_second}});
  }
  return rows;
}

// Products over weights of each dtype beside OpenBLAS's sgemm.
ordered_json bench_products(const ModelConfig& config, Executor& executor) {
  const SgemmFunction sgemm = find_sgemm(executor.num_threads());
  auto rows = ordered_json::array();
  if (!sgemm) {
    std::printf("\nno OpenBLAS (libopenblas.so.0) to compare products with\n");
    return rows;
  }
  const auto I = static_cast<size_t>(config.hidden_size), O = 4 * I;
  constexpr size_t kMostRows = 512;
  std::vector<float> x(kMostRows * I, 0.5f), y(kMostRows * O);
  std::vector<RandomMatrix> weights;
  for (const WeightFormat format : kWeightFormats)
    weights.push_back(random_matrix(format, O, I, 1));
  std::printf("\nproducts with [%zu,%zu], share of sgemm's speed\n%5s | %14s", O, I, "rows",
              "sgemm GFLOP/s");
  for (const WeightFormat format : kWeightFormats) std::printf(" | %8s", dtype_name(format));
  std::printf("\n");
  LinearScratch scratch;
  // What is timed has just run once: OpenBLAS's threads spin for a while after a product, and would slow down whoever comes next.
  const auto time_second = [](BestTime& best, const auto& product) {
    product();
    best.time(product);
  };
  for (const size_t M : {size_t{16}, size_t{64}, size_t{128}, kMostRows}) {
    BestTime peer;
    std::vector<BestTime> ours(weights.size());
    for (int round = 0; round < kRounds + 1; ++round) {
      time_second(peer, [&] {
        sgemm(x.data(), M, I, static_cast<const float*>(weights[0].matrix.data), O, y.data());
      });
      for (size_t i = 0; i < weights.size(); ++i)
        time_second(ours[i], [&] {
          const LinearOutput output{weights[i].matrix, y.data(), O, false};
          linear(x.data(), M, I, {&output, 1}, scratch, executor);
        });
    }
    const double gflops = 2e-9 * static_cast<double>(M * I * O) / peer.seconds();
    std::printf("%5zu | %14.1f", M, gflops);
    for (size_t i = 0; i < weights.size(); ++i) {
      const double ratio = peer.seconds() / ours[i].seconds();
      std::printf(" | %8.2f", ratio);
      rows.push_back({{"dtype", dtype_name(kWeightFormats[i])},
                      {"rows", M},
                      {"sgemm_gflops", gflops},
                      {"sgemm_ratio", ratio}});
    }
    std::printf(M >= 128 ? "  (f32 and bf16 >=%.2f)\n" : "\n", kLeastOfSgemm);
    std::fflush(stdout);
  }
  return rows;
}

// All products of a forward pass with M rows, without anything between them.
double time_products(const ModelConfig& c, size_t M, Executor& executor) {
  const auto D = static_cast<size_t>(c.hidden_size), width = static_cast<size_t>(c.mlp_width());
  const auto heads = static_cast<size_t>(c.output_width());
  const auto inputs = static_cast<size_t>(
      c.query_width() + c.key_width() + c.value_width() + c.num_householder * c.value_heads() +
      (c.use_forget_gate ? c.value_heads() : 0) + (c.use_output_gate ? c.output_width() : 0));
  std::vector<RandomMatrix> weights;
  std::vector<std::vector<float>> results;
  for (const auto& [rows, columns] : {std::pair(inputs, D), {D, heads}, {2 * width, D}, {D, width}}) {
    weights.push_back(random_matrix(WeightFormat::kFloat32, rows, columns, 1));
    results.emplace_back(M * rows);
  }
  const std::vector<float> x(M * std::max({D, heads, width}), 0.5f);
  LinearScratch scratch;
  BestTime best;
  for (int round = 0; round < kRounds; ++round)
    best.time([&] {
      for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
        for (size_t i = 0; i < weights.size(); ++i) {
          const WeightMatrix& w = weights[i].matrix;
          const LinearOutput output{w, results[i].data(), w.rows, false};
          linear(x.data(), M, w.columns, {&output, 1}, scratch, executor);
        }
    });
  return best.seconds();
}

ordered_json bench_prompt(const ModelConfig& config, int64_t tokens, Executor& executor) {
  if (tokens == 0) return nullptr;
  runtime::Runner runner(random_model(config, WeightFormat::kFloat32), executor);
  const std::vector<int64_t> prompt(static_cast<size_t>(tokens), 1);
  BestTime best;
  for (int round = 0; round < kRounds; ++round)
    best.time([&] { runtime::Session(runner).feed(prompt); });
  const auto block = std::min<size_t>(prompt.size(), runtime::Runner::kBlock);
  const double blocks = static_cast<double>(tokens) / static_cast<double>(block);
  const double products = blocks * time_products(config, block, executor);
  const double ratio = best.seconds() / products;
  std::printf("\nprompt of %ld tokens in float32: %.2f s, its products alone %.2f s, ratio %.2f (<=%.1f %s)\n",
              tokens, best.seconds(), products, ratio, kMostOfProducts,
              verdict(ratio <= kMostOfProducts));
  std::fflush(stdout);
  return {{"tokens", tokens}, {"seconds", best.seconds()}, {"products_s", products}, {"ratio", ratio}};
}

int bench_decode(const BenchDecodeOptions& options) {
  const ModelConfig config = find_model_config(options.model);
  const ModelConfig load_config = find_model_config(options.load_model);
  options.json.check();
  const int threads = options.threads.count();
  ThreadPool executor(threads);
  std::printf("%s, %d threads; %s, %s parameters, random weights, one sequence.\n\n",
              cpu_name().c_str(), threads, options.model.c_str(),
              format_count(static_cast<double>(runtime::model_size(config).parameters())).c_str());
  // First, because a new process takes longer to start from one that has used much memory.
  const FirstToken first = time_first_token(load_config, threads);
  std::printf("%s from disk, %.2f GB in the page cache: first token of a new process after %.3f s, reading the file %.3f s, ratio %.2f (<=%.2f %s)\n\n",
              options.load_model.c_str(), first.file_bytes * 1e-9, first.first_token_seconds,
              first.read_seconds, first.ratio(), kMostFirstToken,
              verdict(first.ratio() <= kMostFirstToken));
  std::fflush(stdout);
  const ordered_json rows = bench_dtypes(config, options.seconds, executor);
  const ordered_json products = bench_products(config, executor);
  const ordered_json prompt = bench_prompt(config, options.prompt_tokens, executor);
  options.json.write({{"cpu", cpu_name()},
                      {"threads", threads},
                      {"model", options.model},
                      {"rows", rows},
                      {"products", products},
                      {"prompt", prompt},
                      {"load_model", options.load_model},
                      {"first_token_s", first.first_token_seconds},
                      {"read_s", first.read_seconds}});
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
      ->check(finite_range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--prompt-tokens", options->prompt_tokens, "length of the prompt; 0: none")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return bench_decode(*options); };
}

}  // namespace dp::cli
