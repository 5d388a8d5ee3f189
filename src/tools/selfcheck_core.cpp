// Kernels and runtime against what the reference implementation computed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "io/operator_file.h"
#include "kernels/delta_product.h"
#include "runtime/generate.h"
#include "runtime/session.h"
#include "runtime/stored_floats.h"
#include "tools/selfcheck.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

using Floats = std::vector<float>;

[[noreturn]] void fail(const SafetensorsFile& file, const std::string& problem) {
  throw InputError(file.path().string() + ": " + problem);
}

Floats load(const SafetensorsFile& file, const std::string& name) {
  const TensorEntry& entry = file.at(name);
  return runtime::to_floats({name, file.path().string(), entry.dtype, entry.shape, {}, entry.data, nullptr});
}

double relative_error(const Floats& got, const Floats& want) {
  double scale = 0;
  for (const float x : want) scale = std::max(scale, std::abs(double{x}));
  const double error = absolute_error(got, want);
  return scale > 0 ? error / scale : error;
}

/// Inputs and expected results of the operator, under the names of the file.
struct OperatorFixture : golden::OperatorFile {
  explicit OperatorFixture(const fs::path& path) : OperatorFile(path) {
    for (const auto& [name, shape] : shapes) arrays[name] = load(file, name);
  }

  const float* find(const char* name) const {
    const auto found = arrays.find(name);
    return found == arrays.end() ? nullptr : found->second.data();
  }

  std::map<std::string, Floats> arrays;
};

// o, ht and the gradient of sum(o do) + sum(ht dht) in every input.
std::map<std::string, Floats> compute(const OperatorFixture& fixture) {
  std::vector<int64_t> offsets;
  for (int64_t b = 0; b <= fixture.B; ++b) offsets.push_back(b * fixture.T);
  DeltaProductInputs in;
  in.num_sequences = static_cast<size_t>(fixture.B), in.offsets = offsets.data();
  in.N = static_cast<size_t>(fixture.N), in.H = static_cast<size_t>(fixture.H);
  in.K = static_cast<size_t>(fixture.K), in.V = static_cast<size_t>(fixture.V);
  in.scale = fixture.arrays.at("scale").at(0);
  in.q = fixture.find("q"), in.k = fixture.find("k"), in.v = fixture.find("v");
  in.beta = fixture.find("beta"), in.log_gate = fixture.find("g"), in.state = fixture.find("h0");
  std::map<std::string, Floats> results;
  const auto result = [&](const std::string& name) {
    results[name].assign(fixture.arrays.at(name).size(), NAN);
    return results[name].data();
  };
  SerialExecutor serial;
  Floats saved(delta_product_saved_size(in));
  delta_product_forward(in, result("o"), result("ht"), saved.data(), serial);
  DeltaProductGradients gradients;
  gradients.d_o = fixture.find("do"), gradients.d_final_state = fixture.find("dht");
  gradients.dq = result("dq"), gradients.dk = result("dk"), gradients.dv = result("dv");
  gradients.dbeta = result("dbeta");
  if (in.log_gate != nullptr) gradients.dlog_gate = result("dg");
  if (in.state != nullptr) gradients.dstate = result("dh0");
  delta_product_backward(in, saved.data(), gradients, serial);
  return results;
}

/// A model's directory with expected.safetensors.
class RuntimeCheck {
 public:
  explicit RuntimeCheck(const fs::path& directory)
      : expected_(directory / "expected.safetensors"),
        runner_(runtime::Model::open(directory), executor_) {}

  Deviation run() {
    check_batch();
    const std::vector<int64_t> prompt = ids("prompt_ids");
    check_prompt(prompt, prompt.size(), "whole sequences in the runtime");
    check_prompt(prompt, 3, "blocks of tokens in the runtime");
    check_prompt(prompt, 1, "one token at a time in the runtime");
    check_continuation(prompt);
    return worst_;
  }

 private:
  std::vector<int64_t> ids(const char* name) const {
    const TensorEntry& entry = expected_.at(name);
    if (entry.dtype != DType::kI64 || entry.shape.size() != 2)
      fail(expected_, "tensor " + quote(name) + " must be a batch of int64 tokens, got shape " +
                          shape_text(entry.shape));
    std::vector<int64_t> values(entry.data.size() / sizeof(int64_t));
    std::memcpy(values.data(), entry.data.data(), entry.data.size());
    return values;
  }

  void compare(const std::string& name, std::span<const float> got, double tolerance,
               const char* method) {
    const double error = absolute_error(got, load(expected_, name));
    worst_ = std::max(worst_, Deviation{error, tolerance, method, name, false});
  }

  Floats logits(std::span<const float> features) {
    const ModelConfig& config = runner_.model().config();
    Floats out(features.size() / static_cast<size_t>(config.hidden_size) *
               static_cast<size_t>(config.vocab_size));
    runner_.logits(features, out);
    return out;
  }

  void check_batch() {
    const std::vector<int64_t> tokens = ids("input_ids");
    const std::vector<int64_t>& shape = expected_.at("input_ids").shape;
    const auto B = static_cast<size_t>(shape[0]), T = static_cast<size_t>(shape[1]);
    std::vector<runtime::State> states(B);
    std::vector<runtime::Segment> segments;
    for (size_t b = 0; b < B; ++b)
      segments.push_back({std::span(tokens).subspan(b * T, T), &states[b]});
    std::vector<Floats> residuals;
    const std::span<const float> features = runner_.features(segments, &residuals);
    constexpr const char* kMethod = "whole sequences in the runtime";
    compare("logits", logits(features), golden::kLogitTolerance, kMethod);
    if (residuals.empty()) return;
    // The reference lists the last block's output after the norm.
    residuals.back().assign(features.begin(), features.end());
    for (size_t i = 0; i < residuals.size(); ++i)
      compare("hidden." + std::to_string(i), residuals[i], golden::kLogitTolerance, kMethod);
  }

  // The prompt in blocks of so many tokens: logits of every token, state after the last.
  void check_prompt(const std::vector<int64_t>& prompt, size_t block, const char* method) {
    runtime::State state = runner_.model().new_state();
    Floats all;
    for (size_t begin = 0; begin < prompt.size(); begin += block) {
      const auto some = std::span(prompt).subspan(begin, std::min(block, prompt.size() - begin));
      const Floats part = logits(runner_.features({some, &state}));
      all.insert(all.end(), part.begin(), part.end());
    }
    compare("prompt_logits", all, golden::kLogitTolerance, method);
    for (const runtime::StatePart& part : runner_.model().blocks()[0].mixer->state_parts()) {
      const auto values = std::span(state.layers[0]).subspan(part.offset, part.size);
      const std::string name = part.name == "recurrent" ? "state0" : "conv0_" + part.name.substr(5);
      if (part.name == "recurrent")
        compare(name, values, golden::kStateTolerance, method);
      else if (expected_.find(name))
        compare(name, transposed(values, static_cast<size_t>(part.shape[0])), golden::kLogitTolerance, method);
    }
  }

  // [W,C] here, [C,W] there.
  static Floats transposed(std::span<const float> values, size_t W) {
    const size_t C = values.size() / W;
    Floats turned(values.size());
    for (size_t c = 0; c < C; ++c)
      for (size_t w = 0; w < W; ++w) turned[c * W + w] = values[w * C + c];
    return turned;
  }

  void check_continuation(const std::vector<int64_t>& prompt) {
    const std::vector<int64_t> want = ids("greedy_ids");
    runtime::Session session(runner_);
    runtime::GenerateOptions options;
    options.max_tokens = static_cast<int64_t>(want.size());
    if (const auto got = runtime::generate(session, prompt, options); got != want)
      fail(expected_, "the greedy continuation of prompt_ids in the runtime is not greedy_ids but " +
                          shape_text(got));
  }

  SerialExecutor executor_;
  SafetensorsFile expected_;
  runtime::Runner runner_;
  Deviation worst_;
};

}  // namespace

double absolute_error(std::span<const float> got, std::span<const float> want) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (got.size() != want.size()) return kInfinite;
  double largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(double{got[i]} - want[i]);
    if (!std::isfinite(error)) return kInfinite;
    largest = std::max(largest, error);
  }
  return largest;
}

Deviation check_kernels(const fs::path& file) {
  const OperatorFixture fixture(file);
  Deviation worst;
  for (const auto& [name, got] : compute(fixture))
    worst = std::max(worst, {relative_error(got, fixture.arrays.at(name)),
                             golden::operator_tolerance(fixture.arrays.contains("g"), true),
                             "the kernels", name, true});
  return worst;
}

Deviation check_runtime(const fs::path& directory) { return RuntimeCheck(directory).run(); }

}  // namespace dp::cli
