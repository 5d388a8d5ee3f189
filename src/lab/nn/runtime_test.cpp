// The two implementations of one definition: nn with gradients, core/runtime on raw memory.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "nn/pretrained.h"
#include "nn/test_models.h"
#include "runtime/runner.h"

namespace dp {
namespace {

constexpr double kTolerance = 1e-4;  // of logits, absolute, as for the golden models

std::map<std::string, runtime::Array> model_arrays(const LanguageModel& model) {
  std::map<std::string, runtime::Array> arrays;
  for (const auto& [name, value] : model.named_values()) {
    const at::Tensor values = value.detach().contiguous();
    arrays[name] = {values.sizes().vec(),
                    {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()}};
  }
  return arrays;
}

// Logits [T,vocab] of the runtime for one sequence, in blocks of so many tokens.
at::Tensor runtime_logits(runtime::Runner& runner, const at::Tensor& ids, size_t block) {
  std::span<const int64_t> tokens(ids.data_ptr<int64_t>(), static_cast<size_t>(ids.numel()));
  runtime::State state = runner.model().new_state();
  std::vector<at::Tensor> all;
  for (; !tokens.empty(); tokens = tokens.subspan(std::min(block, tokens.size()))) {
    const auto some = tokens.first(std::min(block, tokens.size()));
    at::Tensor logits = at::empty(
        {static_cast<int64_t>(some.size()), runner.model().config().vocab_size}, at::kFloat);
    runner.logits(runner.features({some, &state}),
                  std::span(logits.data_ptr<float>(), static_cast<size_t>(logits.numel())));
    all.push_back(logits);
  }
  return at::cat(all, 0);
}

void expect_runtime_equals_nn(const ModelConfig& config) {
  SCOPED_TRACE(describe(config));
  const at::NoGradGuard no_grad;
  SerialExecutor serial;
  const LanguageModel model = random_model(config);
  const at::Tensor ids = random_ids(config, 1, 23);
  const at::Tensor want = model.logits(model.features(ids)).squeeze(0);
  runtime::Runner runner(runtime::Model::from_arrays(config, model_arrays(model)), serial);
  for (const size_t block : {1, 6, 23})
    EXPECT_LT((runtime_logits(runner, ids, block) - want).abs().max().item<double>(), kTolerance);
}

TEST(Runtime, EqualsNnForEveryCombinationOfOptions) {
  for (const ModelConfig& config : every_config()) expect_runtime_equals_nn(config);
}

TEST(Runtime, EqualsNnForProductsOfRwkv7Transitions) {
  for (const int64_t factors : {1, 3})
    for (const bool negative : {false, true}) {
      ModelConfig config;
      config.architecture = Architecture::kRwkv7;
      config.vocab_size = 19, config.hidden_size = 20, config.num_hidden_layers = 2;
      config.num_heads = 2, config.head_dim = 6, config.expand_v = 1.5, config.intermediate_size = 24;
      config.num_householder = factors, config.allow_neg_eigval = negative;
      config.use_short_conv = config.use_output_gate = config.use_forget_gate = false;
      config.rwkv7.gate_low_rank_dim = 3;
      ASSERT_TRUE(runtime::is_supported(config));
      expect_runtime_equals_nn(config);
    }
}

TEST(Runtime, ReadsWhatNnWrites) {
  const at::NoGradGuard no_grad;
  SerialExecutor serial;
  const TestFolder folder;
  for (const ModelConfig& config : some_configs())
    for (const char* dtype : {"float32", "bfloat16", "float16"})
      for (const bool legacy : {false, true}) {
        SCOPED_TRACE(describe(config) + dtype);
        SaveOptions options;
        options.dtype = dtype;
        options.legacy_layout = legacy;
        std::filesystem::remove_all(folder / "model");
        save_model(random_model(config), folder / "model", options);
        const LanguageModel model = load_model(folder / "model");
        const at::Tensor ids = random_ids(config, 1, 9);
        runtime::Runner runner(runtime::Model::open(folder / "model"), serial);
        const at::Tensor want = model.logits(model.features(ids)).squeeze(0);
        EXPECT_LT((runtime_logits(runner, ids, 4) - want).abs().max().item<double>(), kTolerance);
      }
}

}  // namespace
}  // namespace dp
