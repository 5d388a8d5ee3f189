// dp bench quality: what a model loses in fewer bits, on a text.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "runtime/convert.h"
#include "runtime/runner.h"
#include "tools/bench/machine.h"
#include "tools/bench/model.h"
#include "tools/command.h"
#include "tools/tokenizer_option.h"

namespace dp::cli {
namespace {

struct BenchQualityOptions {
  std::string model, text;
  int64_t tokens = 16384, window = 512;
  TokenizerOption tokenizer;
  JsonOption json;
  ThreadsOption threads;
};

// Goals: perplexity of int8 and int4 over that of float32.
constexpr double kMostInt8 = 1.005, kMostInt4 = 1.03;

std::vector<int64_t> read_tokens(const BenchQualityOptions& options, const ModelConfig& config) {
  const std::optional<std::string> text = read_file(options.text);
  if (!text) throw InputError("--text: cannot read " + quote(options.text));
  const auto tokenizer = options.tokenizer.load(options.model, config);
  // Enough of the text; encoding all of a large corpus would take long.
  const std::vector<int32_t> tokens =
      tokenizer->encode(std::string_view(*text).substr(0, static_cast<size_t>(options.tokens) * 16));
  const size_t count = std::min(tokens.size(), static_cast<size_t>(options.tokens));
  if (count < 2)
    throw InputError("--text: " + quote(options.text) + " has " + std::to_string(count) +
                     " tokens, expected at least 2");
  return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count)};
}

/// Feeds a text to a model, window by window, and hands out the log-probabilities of each next token.
class Reader {
 public:
  Reader(std::shared_ptr<const runtime::Model> model, Executor& executor)
      : runner_(std::move(model), executor) {}

  // [tokens,vocab] after each of some tokens that continue the window.
  const std::vector<float>& log_probabilities(std::span<const int64_t> tokens, bool begins) {
    if (begins) state_ = runner_.model().new_state();
    const auto vocab = static_cast<size_t>(runner_.model().config().vocab_size);
    logits_.resize(tokens.size() * vocab);
    runner_.logits(runner_.features({tokens, &state_}), logits_);
    for (size_t t = 0; t < tokens.size(); ++t) {
      const auto row = std::span(logits_).subspan(t * vocab, vocab);
      const float largest = *std::ranges::max_element(row);
      double sum = 0;
      for (const float x : row) sum += std::exp(double{x} - largest);
      const auto shift = static_cast<float>(largest + std::log(sum));
      for (float& x : row) x -= shift;
    }
    return logits_;
  }

 private:
  runtime::Runner runner_;
  runtime::State state_;
  std::vector<float> logits_;
};

struct Quality {
  double loss = 0;        // mean over the tokens, in nats
  double divergence = 0;  // KL(float32 || this), mean over the tokens
};

// Of each reader; the first one is what the others are compared with.
std::vector<Quality> measure(const std::vector<std::unique_ptr<Reader>>& readers,
                             std::span<const int64_t> tokens, size_t window, size_t vocab) {
  constexpr size_t kBlock = 64;
  std::vector<Quality> result(readers.size());
  for (size_t begin = 0; begin + 1 < tokens.size(); begin += kBlock) {
    const size_t left = window - begin % window;
    const size_t count = std::min({kBlock, left, tokens.size() - 1 - begin});
    const std::vector<float>* base = nullptr;
    for (size_t i = 0; i < readers.size(); ++i) {
      const std::vector<float>& logs =
          readers[i]->log_probabilities(tokens.subspan(begin, count), begin % window == 0);
      if (i == 0) base = &logs;
      for (size_t t = 0; t < count; ++t) {
        result[i].loss -= logs[t * vocab + static_cast<size_t>(tokens[begin + t + 1])];
        for (size_t v = t * vocab; i > 0 && v < (t + 1) * vocab; ++v)
          result[i].divergence += std::exp(double{(*base)[v]}) * (double{(*base)[v]} - logs[v]);
      }
    }
  }
  for (Quality& quality : result) {
    quality.loss /= static_cast<double>(tokens.size() - 1);
    quality.divergence /= static_cast<double>(tokens.size() - 1);
  }
  return result;
}

int bench_quality(const BenchQualityOptions& options) {
  options.json.check();
  if (options.window % 64 != 0) throw InputError("--window must be a multiple of 64, got " + std::to_string(options.window));
  const auto model = runtime::Model::open(options.model);
  const std::vector<int64_t> tokens = read_tokens(options, model->config());
  ThreadPool executor(options.threads.count());
  const TemporaryDirectory directory;
  const std::vector<std::string> dtypes = {"float32", "bfloat16", "int8", "int4"};
  std::vector<std::unique_ptr<Reader>> readers;
  for (const std::string& dtype : dtypes) {
    runtime::ConvertOptions convert;
    convert.dtype = dtype;
    runtime::convert_checkpoint(options.model, directory.path() / dtype, convert, executor);
    readers.push_back(
        std::make_unique<Reader>(runtime::Model::open(directory.path() / dtype), executor));
  }
  const std::vector<Quality> all = measure(readers, tokens, static_cast<size_t>(options.window),
                                           static_cast<size_t>(model->config().vocab_size));
  std::printf("%s on %zu tokens of %s, windows of %ld\n\n%-9s | %10s %10s | %s\n",
              options.model.c_str(), tokens.size(), options.text.c_str(), options.window, "weights",
              "perplexity", "of float32", "KL per token, nats");
  auto rows = nlohmann::ordered_json::array();
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const double ratio = std::exp(all[i].loss - all[0].loss);
    std::printf("%-9s | %10.4f %10.5f | %.6f", dtypes[i].c_str(), std::exp(all[i].loss), ratio, all[i].divergence);
    if (const double most = dtypes[i] == "int8" ? kMostInt8 : kMostInt4; dtypes[i].starts_with("int"))
      std::printf("  (perplexity <=%.3f of float32 %s)", most, verdict(ratio <= most));
    std::printf("\n");
    rows.push_back({{"dtype", dtypes[i]},
                    {"perplexity", std::exp(all[i].loss)},
                    {"perplexity_ratio", ratio},
                    {"kl_per_token", all[i].divergence}});
  }
  options.json.write({{"model", options.model}, {"tokens", tokens.size()}, {"rows", rows}});
  return 0;
}

}  // namespace

Run add_bench_quality(CLI::App& app) {
  auto options = std::make_shared<BenchQualityOptions>();
  app.add_option("model", options->model, "a language model's directory, not yet quantised")
      ->type_name("DIR")
      ->required();
  app.add_option("--text", options->text, "a file of text that it was not trained on")
      ->type_name("FILE")
      ->required();
  app.add_option("--tokens", options->tokens, "of the text, at most")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  app.add_option("--window", options->window, "tokens after which the model begins anew, a multiple of 64")
      ->check(CLI::Range(64, 1 << 24))
      ->capture_default_str();
  options->tokenizer.add_to(app);
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return bench_quality(*options); };
}

}  // namespace dp::cli
