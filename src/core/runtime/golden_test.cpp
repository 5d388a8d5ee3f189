// Models and recurrences against what the reference implementation computed (tests/data/golden/README.md).
#include <gtest/gtest.h>

#include <cstring>

#include "io/safetensors.h"
#include "kernels/delta_product.h"
#include "runtime/generate.h"
#include "runtime/session.h"
#include "runtime/test_models.h"

namespace dp::runtime {
namespace {
namespace fs = std::filesystem;

constexpr double kStateTolerance = 2e-5;  // absolute

template <class T>
std::vector<T> values_of(const TensorEntry& entry) {
  std::vector<T> values(entry.data.size() / sizeof(T));
  std::memcpy(values.data(), entry.data.data(), entry.data.size());
  return values;
}

std::vector<fs::path> golden(const std::string& beginning) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(DP_TEST_DATA) / "golden"))
    if (entry.path().filename().string().starts_with(beginning)) found.push_back(entry.path());
  return found;
}

class Golden {
 public:
  explicit Golden(const fs::path& directory)
      : expected_(directory / "expected.safetensors"), runner_(Model::open(directory), pool_) {}

  // Whole sequences, all of the batch at once: logits and the residuals between blocks.
  void check_batch() {
    const TensorEntry& ids = expected_.at("input_ids");
    const std::vector<int64_t> tokens = values_of<int64_t>(ids);
    const auto B = static_cast<size_t>(ids.shape[0]), T = static_cast<size_t>(ids.shape[1]);
    std::vector<State> states(B, runner_.model().new_state());
    std::vector<Segment> segments;
    for (size_t b = 0; b < B; ++b)
      segments.push_back({std::span(tokens).subspan(b * T, T), &states[b]});
    std::vector<std::vector<float>> residuals;
    const std::span<const float> features = runner_.features(segments, &residuals);
    residuals.back().assign(features.begin(),
                            features.end());  // the reference has it after the norm
    compare("logits", logits(features), kLogitTolerance);
    for (size_t i = 0; i < residuals.size(); ++i)
      compare("hidden." + std::to_string(i), residuals[i], kLogitTolerance);
  }

  // The prompt in blocks of so many tokens: logits of every token, state after the last.
  void check_prompt(size_t block) {
    const std::vector<int64_t> prompt = values_of<int64_t>(expected_.at("prompt_ids"));
    State state = runner_.model().new_state();
    std::vector<float> all;
    for (size_t begin = 0; begin < prompt.size(); begin += block) {
      const auto some = std::span(prompt).subspan(begin, std::min(block, prompt.size() - begin));
      const std::vector<float> part = logits(runner_.features({some, &state}));
      all.insert(all.end(), part.begin(), part.end());
    }
    compare("prompt_logits", all, kLogitTolerance);
    for (const StatePart& part : runner_.model().blocks()[0].mixer->state_parts()) {
      std::vector<float> values(
          state.layers[0].begin() + static_cast<ptrdiff_t>(part.offset),
          state.layers[0].begin() + static_cast<ptrdiff_t>(part.offset + part.size));
      if (part.name == "recurrent") {
        compare("state0", values, kStateTolerance);
      } else if (const std::string name = "conv0_" + part.name.substr(5); expected_.find(name)) {
        const auto W = static_cast<size_t>(part.shape[0]), C = static_cast<size_t>(part.shape[1]);
        std::vector<float> turned(values.size());  // [C,W] there, [W,C] here
        for (size_t c = 0; c < C; ++c)
          for (size_t w = 0; w < W; ++w) turned[c * W + w] = values[w * C + c];
        compare(name, turned, kLogitTolerance);
      }
    }
  }

  void check_continuation() {
    const std::vector<int64_t> want = values_of<int64_t>(expected_.at("greedy_ids"));
    Session session(runner_);
    GenerateOptions options;
    options.max_tokens = static_cast<int64_t>(want.size());
    EXPECT_EQ(generate(session, values_of<int64_t>(expected_.at("prompt_ids")), options), want);
  }

 private:
  std::vector<float> logits(std::span<const float> features) {
    const ModelConfig& config = runner_.model().config();
    std::vector<float> out(features.size() / static_cast<size_t>(config.hidden_size) *
                           static_cast<size_t>(config.vocab_size));
    runner_.logits(features, out);
    return out;
  }

  void compare(const std::string& name, std::span<const float> got, double tolerance) {
    const std::vector<float> want = values_of<float>(expected_.at(name));
    EXPECT_LT(distance(got, std::span<const float>(want)), tolerance) << name;
  }

  ThreadPool pool_{2};
  SafetensorsFile expected_;
  Runner runner_;
};

TEST(GoldenModels, LogitsResidualsStatesAndContinuations) {
  const std::vector<fs::path> models = golden("model_");
  EXPECT_GE(models.size(), 5u);
  for (const fs::path& model : models) {
    SCOPED_TRACE(model);
    Golden golden(model);
    golden.check_batch();
    for (const size_t block : {1000, 3, 1}) golden.check_prompt(block);
    golden.check_continuation();
  }
}

TEST(GoldenOperators, OutputsAndFinalStates) {
  const std::vector<fs::path> files = golden("op_");
  EXPECT_GE(files.size(), 5u);
  SerialExecutor serial;
  for (const fs::path& path : files) {
    SCOPED_TRACE(path);
    const SafetensorsFile file(path);
    const auto array = [&](const char* name) {
      return file.find(name) ? values_of<float>(file.at(name)) : std::vector<float>();
    };
    const std::vector<float> q = array("q"), k = array("k"), v = array("v"), beta = array("beta"),
                             g = array("g"), h0 = array("h0");
    const std::vector<int64_t>&shape = file.at("q").shape, &values = file.at("v").shape;
    const int64_t B = shape[0], T = shape[1];
    std::vector<int64_t> offsets;
    for (int64_t b = 0; b <= B; ++b) offsets.push_back(b * T);
    DeltaProductInputs in;
    in.num_sequences = static_cast<size_t>(B), in.offsets = offsets.data();
    in.N = static_cast<size_t>(values[1] / T), in.H = static_cast<size_t>(shape[2]);
    in.K = static_cast<size_t>(shape[3]), in.V = static_cast<size_t>(values[3]);
    in.scale = array("scale").at(0);
    in.q = q.data(), in.k = k.data(), in.v = v.data(), in.beta = beta.data();
    in.log_gate = g.empty() ? nullptr : g.data();
    in.state = h0.empty() ? nullptr : h0.data();
    std::vector<float> o(array("o").size()), state(array("ht").size());
    delta_product_forward(in, o.data(), state.data(), nullptr, serial);
    for (const auto& [name, got] : {std::pair("o", &o), {"ht", &state}}) {
      const std::vector<float> want = array(name);
      double largest = 0;
      for (const float x : want) largest = std::max(largest, std::abs(double{x}));
      EXPECT_LT(distance(*got, std::span<const float>(want)), (g.empty() ? 1e-5 : 1e-4) * largest);
    }
  }
}

}  // namespace
}  // namespace dp::runtime
