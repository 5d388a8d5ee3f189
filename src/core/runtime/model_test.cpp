// Models of every combination of options against the definition in double precision, however their tokens come.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_input_error.h"
#include "runtime/runner.h"
#include "runtime/test_models.h"

namespace dp::runtime {
namespace {
namespace fs = std::filesystem;

// Logits of all tokens, given to the model in blocks of so many.
std::vector<float> logits_in_blocks(Runner& runner, std::span<const int64_t> tokens, size_t block) {
  const auto vocab = static_cast<size_t>(runner.model().config().vocab_size);
  State state = runner.model().new_state();
  std::vector<float> all;
  while (!tokens.empty()) {
    const auto some = tokens.first(std::min(block, tokens.size()));
    tokens = tokens.subspan(some.size());
    std::vector<float> logits(some.size() * vocab);
    runner.logits(runner.features({some, &state}), logits);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

std::vector<float> logits_in_blocks(const std::shared_ptr<const Model>& model,
                                    std::span<const int64_t> tokens, size_t block) {
  SerialExecutor serial;
  Runner runner(model, serial);
  return logits_in_blocks(runner, tokens, block);
}

TEST(Model, EveryCombinationOfOptionsMatchesTheDefinition) {
  SerialExecutor serial;
  for (const ModelConfig& config : every_config()) {
    SCOPED_TRACE(describe(config));
    const Arrays arrays = random_arrays(config);
    const std::vector<int64_t> tokens = random_tokens(config, 19);
    const std::vector<double> want = reference_logits(config, arrays, tokens);
    Runner runner(Model::from_arrays(config, arrays), serial);
    for (const size_t block : {1, 2, 3, 7, 19})
      EXPECT_LT(distance(logits_in_blocks(runner, tokens, block), want), kLogitTolerance) << block;
  }
}

TEST(Model, SequencesTogetherAreAsAlone) {
  SerialExecutor serial;
  for (const ModelConfig& config : every_config()) {
    SCOPED_TRACE(describe(config));
    const Arrays arrays = random_arrays(config);
    Runner runner(Model::from_arrays(config, arrays), serial);
    const auto vocab = static_cast<size_t>(config.vocab_size);
    // Sequences that begin, that go on by one token, and that go on by several, in one call.
    std::vector<std::vector<int64_t>> seen, next;
    for (const auto& [before, more] : {std::pair(0, 1), {3, 1}, {0, 5}, {2, 4}, {9, 1}, {1, 2}}) {
      const auto tokens = random_tokens(config, before + more, before + 10 * more);
      seen.emplace_back(tokens.begin(), tokens.begin() + before);
      next.emplace_back(tokens.begin() + before, tokens.end());
    }
    std::vector<State> states(seen.size());
    states[0] = runner.model().new_state();  // as good as an empty one
    std::vector<Segment> segments;
    size_t M = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
      if (!seen[i].empty()) runner.features({seen[i], &states[i]});
      segments.push_back({next[i], &states[i]});
      M += next[i].size();
    }
    std::vector<float> logits(M * vocab);
    runner.logits(runner.features(segments), logits);
    std::span<const float> rest = logits;
    for (size_t i = 0; i < seen.size(); ++i) {
      std::vector<int64_t> all = seen[i];
      all.insert(all.end(), next[i].begin(), next[i].end());
      const std::vector<double> want = reference_logits(config, arrays, all);
      const size_t count = next[i].size() * vocab;
      EXPECT_LT(distance(rest.first(count), std::span(want).last(count)), kLogitTolerance) << i;
      EXPECT_EQ(states[i].tokens_seen, static_cast<int64_t>(all.size()));
      rest = rest.subspan(count);
    }
  }
}

// Wide enough that products, norms and recurrences are shared out among threads.
ModelConfig wide_config() {
  ModelConfig c;
  c.vocab_size = 300;
  c.hidden_size = 160;
  c.num_hidden_layers = 2;
  c.num_heads = 3;
  c.num_v_heads = 6;
  c.head_dim = 40;
  c.expand_v = 1.5;
  c.num_householder = 2;
  c.use_forget_gate = c.allow_neg_eigval = true;
  c.intermediate_size = 500;
  return c;
}

TEST(Model, BitsDoNotDependOnThreads) {
  const auto model = random_model(wide_config());
  const std::vector<int64_t> tokens = random_tokens(model->config(), 70);
  for (const size_t block : {1, 5, 9, 70}) {
    const std::vector<float> want = logits_in_blocks(model, tokens, block);
    for (const int threads : {1, 2, 3, 4}) {
      ThreadPool pool(threads);
      Runner runner(model, pool);
      EXPECT_EQ(logits_in_blocks(runner, tokens, block), want) << threads << " " << block;
    }
  }
}

TEST(Model, WideModelsMatchTheDefinition) {
  const ModelConfig config = wide_config();
  const Arrays arrays = random_arrays(config);
  const std::vector<int64_t> tokens = random_tokens(config, 70);
  const std::vector<double> want = reference_logits(config, arrays, tokens);
  for (const size_t block : {1, 8, 33, 70})
    EXPECT_LT(distance(logits_in_blocks(Model::from_arrays(config, arrays), tokens, block), want),
              kLogitTolerance);
}

// Nobody reads head 1 and every second unit of the first layer, the second head's keys have zeros, and two thirds
// of all weights are 0.
Arrays with_zeros(const ModelConfig& config, Arrays arrays) {
  std::mt19937 random(5);
  for (auto& [name, array] : arrays)
    if (name.find("proj") != std::string::npos && array.shape.size() == 2)
      for (float& value : array.values)
        if (random() % 3 != 0) value = 0;
  const auto clear = [&](const std::string& name, const auto& clears) {
    const auto at = arrays.find("model.layers.0." + name);
    if (at == arrays.end()) return;
    const int64_t columns = at->second.shape[1];
    for (size_t i = 0; i < at->second.values.size(); ++i) {
      const auto number = static_cast<int64_t>(i);
      if (clears(number / columns, number % columns)) at->second.values[i] = 0;
    }
  };
  const int64_t K = config.head_dim, V = config.value_head_dim();
  clear("attn.o_proj.weight", [&](int64_t, int64_t column) { return column / V == 1; });
  clear("mlp.down_proj.weight", [](int64_t, int64_t column) { return column % 2 == 0; });
  for (const char* name : {"attn.q_proj.weight", "attn.k_proj.weight"})
    clear(name, [&](int64_t row, int64_t) { return row % K == 2 || row % K == K - 1; });
  return arrays;
}

TEST(Model, ComputesTheSameWithoutZeros) {
  int trimmed = 0;
  for (const ModelConfig& config : every_config()) {
    SCOPED_TRACE(describe(config));
    const Arrays arrays = with_zeros(config, random_arrays(config));
    const std::vector<int64_t> tokens = random_tokens(config, 40);
    const auto whole = Model::from_arrays(config, arrays),
               without = Model::from_arrays(config, arrays, Zeros::kLeaveOut);
    trimmed += without->new_state().layers[0].size() < whole->new_state().layers[0].size();
    EXPECT_EQ(without->new_state().layers[1].size(), whole->new_state().layers[1].size());
    for (const size_t block : {1, 40})
      EXPECT_LT(distance(logits_in_blocks(without, tokens, block),
                         logits_in_blocks(whole, tokens, block)),
                kLogitTolerance);
  }
  EXPECT_GT(trimmed, 3);  // models with convolutions or output gates stay as they are
}

TEST(Model, RefusesTokensOutsideTheVocabularyAndChangesNothing) {
  SerialExecutor serial;
  Runner runner(random_model(some_configs()[3]), serial);
  State state = runner.model().new_state();
  const std::vector<int64_t> good = {1, 2}, bad = {1, 19}, negative = {-1};
  runner.features({good, &state});
  const State before = state;
  EXPECT_THROW(runner.features({bad, &state}), InputError);
  EXPECT_THROW(runner.features({negative, &state}), InputError);
  EXPECT_EQ(state.layers, before.layers);
  EXPECT_EQ(state.tokens_seen, 2);
}

class ModelFiles : public testing::Test {
 protected:
  std::string error_message(const fs::path& path) const {
    return input_error([&] { Model::open(path); });
  }
  void expect_error(const std::string& part) const {
    EXPECT_NE(error_message(path_).find(part), std::string::npos) << error_message(path_);
  }
  TestFolder folder_;
  fs::path path_ = folder_ / "model";
};

TEST_F(ModelFiles, EveryDtypeAndLayoutIsReadExactly) {
  for (const ModelConfig& config : some_configs())
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64})
      for (const bool legacy : {false, true}) {
        SCOPED_TRACE(describe(config) + std::string(dtype_name(dtype)));
        const Arrays arrays = rounded(random_arrays(config), dtype);
        fs::remove_all(path_);
        write_model(path_, config, arrays, {dtype, legacy});
        const std::vector<int64_t> tokens = random_tokens(config, 12);
        EXPECT_EQ(logits_in_blocks(Model::open(path_), tokens, 5),
                  logits_in_blocks(Model::from_arrays(config, arrays), tokens, 5));
        EXPECT_EQ(Model::open(path_)->fingerprint(),
                  Model::from_arrays(config, arrays)->fingerprint());
      }
}

TEST_F(ModelFiles, DeltaNetsHaveOneFactor) {
  ModelConfig config = some_configs()[0];
  config.num_householder = 1;
  for (const Architecture architecture : {Architecture::kDeltaNet, Architecture::kGatedDeltaNet}) {
    config.architecture = architecture;
    config.use_forget_gate = config.architecture == Architecture::kGatedDeltaNet;
    const Arrays arrays = random_arrays(config);
    const std::vector<int64_t> tokens = random_tokens(config, 9);
    EXPECT_LT(distance(logits_in_blocks(Model::from_arrays(config, arrays), tokens, 4),
                       reference_logits(config, arrays, tokens)),
              kLogitTolerance);
  }
  config.architecture = Architecture::kMamba;
  EXPECT_THROW(Model::from_arrays(config, random_arrays(config)), InputError);
}

TEST_F(ModelFiles, NamesTheTensorThatIsWrong) {
  const ModelConfig config = some_configs()[5];
  const auto try_arrays = [&](const auto& change) {
    Arrays arrays = random_arrays(config);
    change(arrays);
    write_model(path_, config, arrays);
  };
  const std::string name = "model.layers.1.attn.o_proj.weight";
  try_arrays([&](Arrays& arrays) { arrays.erase(name); });
  expect_error("has no tensor '" + name + "'");
  try_arrays([&](Arrays& arrays) {
    arrays[name].shape = {240, 1};
    arrays[name].values.resize(240);
  });
  expect_error("tensor '" + name + "' has shape [240, 1], expected [20, ");
  expect_error("from config.json");
  try_arrays([&](Arrays& arrays) { arrays["model.extra"] = {{1}, {0}}; });
  expect_error("tensor 'model.extra' has no place in the model that config.json describes");
}

TEST_F(ModelFiles, RefusesWhatIsTruncatedOrHostile) {
  const ModelConfig config = some_configs()[5];
  write_model(path_, config, random_arrays(config));
  const fs::path file = path_ / "model.safetensors";
  const uintmax_t size = fs::file_size(file);
  for (const uintmax_t length : {uintmax_t{0}, uintmax_t{7}, uintmax_t{100}, size / 2, size - 1}) {
    fs::copy_file(file, path_ / "copy", fs::copy_options::overwrite_existing);
    fs::resize_file(file, length);
    expect_error("model.safetensors");
    fs::rename(path_ / "copy", file);
  }
  EXPECT_EQ(error_message(path_), "no error");

  // Sizes that no tensor confirms: a state of 2^40 bytes for keys and values of 2^20 each.
  ModelConfig huge = config;
  huge.head_dim = 1 << 20;
  std::ofstream(path_ / "config.json") << to_json(huge);
  EXPECT_NE(error_message(path_), "no error");
  // More factors than there are tensors, in either layout.
  for (const bool legacy : {false, true}) {
    ModelConfig many = config;
    write_model(path_, many, random_arrays(config), {DType::kF32, legacy});
    many.num_householder = 1000;
    many.legacy_layout = legacy;
    std::ofstream(path_ / "config.json") << to_json(many);
    expect_error(legacy ? "factors (num_householder of config.json)" : "has shape");
    many.num_householder = 8'000'000;
    std::ofstream(path_ / "config.json") << to_json(many);
    expect_error("field 'num_householder' is '8000000'");
  }
  std::ofstream(path_ / "config.json") << "{\"model_type\": \"gated_deltaproduct\", ";
  expect_error("config.json");
  fs::remove(path_ / "config.json");
  expect_error("is not a model");
}

}  // namespace
}  // namespace dp::runtime
