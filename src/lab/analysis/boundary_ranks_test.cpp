#include "analysis/boundary_ranks.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "analysis/effective_rank.h"
#include "base/error.h"
#include "nn/test_models.h"

namespace dp::analysis {
namespace {

constexpr int64_t kTokens = 33, kBos = 32;

ModelConfig gated_config() {
  ModelConfig config;
  config.vocab_size = kTokens, config.hidden_size = 64, config.num_hidden_layers = 1;
  config.num_heads = 2, config.head_dim = 24, config.expand_v = 1, config.num_householder = 1;
  config.use_short_conv = false, config.use_output_gate = false, config.use_forget_gate = true;
  config.allow_neg_eigval = false, config.intermediate_size = 16;
  return config;
}

// The forget gate of every head is 1 at all tokens but BOS, where head 0 forgets all. Embeddings are orthogonal, so that a projection can
// tell tokens apart.
LanguageModel model_that_resets_head_0_at_bos() {
  LanguageModel model = random_model(gated_config());
  const at::NoGradGuard no_grad;
  for (auto& [name, parameter] : model.parameters()) {
    at::Tensor& value = parameter->value;
    if (name == "model.embeddings.weight") value.copy_(at::eye(kTokens, 64));
    if (name.ends_with("attn_norm.weight")) value.fill_(1);
    if (name.ends_with("A_log")) value.fill_(0);
    if (name.ends_with("dt_bias")) value.fill_(-30);  // softplus: nothing is forgotten
    if (name.ends_with("a_proj.weight")) {
      value.zero_();
      value[0][kBos] = 100;
    }
  }
  return model;
}

at::Tensor documents(int64_t count, int64_t length) {
  at::manual_seed(3);
  at::Tensor tokens = at::randint(kBos, {count, length}, at::kLong);
  tokens.select(1, 0).fill_(kBos);
  return tokens;
}

TEST(BoundaryRanks, FallAtBosInTheHeadThatForgetsThereAndInNoOther) {
  const BoundaryRanks found = boundary_ranks(model_that_resets_head_0_at_bos(), documents(12, 64), 8);
  ASSERT_EQ(found.layers.size(), 1u);
  const at::Tensor& ranks = found.layers[0];
  ASSERT_EQ(ranks.sizes(), at::IntArrayRef({12, 8, 2}));
  const at::Tensor before = ranks.slice(0, 0, 11).select(1, 7), after = ranks.slice(0, 1).select(1, 0);  // [boundaries, heads]
  EXPECT_LE(after.select(1, 0).max().item<double>(), 8);  // 8 tokens have written 8 rows at most
  EXPECT_GT((before - after).select(1, 0).min().item<double>(), 4);
  EXPECT_LT((before - after).select(1, 1).abs().max().item<double>(), 2);
}

TEST(BoundaryRanks, AreThoseOfOneLongText) {
  const ModelConfig config = some_configs()[5];
  const LanguageModel model = random_model(config);
  const at::Tensor tokens = random_ids(config, 3, 12);
  const BoundaryRanks found = boundary_ranks(model, tokens, 6);
  const at::NoGradGuard no_grad;
  ModelState state;
  ForwardOptions forward;
  forward.state = &state;
  model.features(tokens.flatten().unsqueeze(0).slice(1, 0, 30), forward);  // up to the middle of the last document
  const std::vector<at::Tensor> want = effective_ranks(state);
  ASSERT_EQ(found.layers.size(), want.size());
  for (size_t layer = 0; layer < want.size(); ++layer)
    EXPECT_LT((found.layers[layer][2][0] - want[layer][0]).abs().max().item<double>(), 1e-3) << layer;
}

TEST(BoundaryRanks, RefusesDocumentsThatRanksDoNotFit) {
  const LanguageModel model = random_model(gated_config());
  EXPECT_THROW(boundary_ranks(model, documents(3, 20), 8), InputError);
  EXPECT_THROW(boundary_ranks(model, documents(1, 16), 8), InputError);
}

}  // namespace
}  // namespace dp::analysis
