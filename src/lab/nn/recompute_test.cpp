// How much memory activations take, by counting what torch allocates.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/test_models.h"
#include "ops/test_memory.h"

namespace dp {
namespace {

// Bytes that a step needs beyond weights and gradients.
double step_bytes(int64_t layers, bool recompute) {
  MeasureMemory memory;
  ModelConfig config = some_configs()[7];
  config.num_hidden_layers = layers;
  LanguageModel model = random_model(config);
  make_trainable(model);
  const at::Tensor ids = random_ids(config, 8, 256);
  ForwardOptions options;
  options.recompute = recompute;
  const auto step = [&] {
    torch::autograd::backward({model.loss(model.features(ids, options), ids).loss}, {});
  };
  step();  // makes the gradients
  const int64_t before = memory->peak = memory->live;
  step();
  return static_cast<double>(memory->peak - before);
}

TEST(Recompute, MemoryGrowsWithTheRootOfTheDepth) {
  const double plain4 = step_bytes(4, false), plain36 = step_bytes(36, false);
  const double again4 = step_bytes(4, true), again36 = step_bytes(36, true);
  RecordProperty("plain_4_to_36", std::to_string(plain36 / plain4));
  RecordProperty("recomputed_4_to_36", std::to_string(again36 / again4));
  EXPECT_GT(plain36, 6 * plain4);    // nearly 9 times: linear
  EXPECT_LT(again36, 3.3 * again4);  // sqrt(9), and a little
  EXPECT_LT(again36, 0.3 * plain36);
}

}  // namespace
}  // namespace dp
