#include "analysis/ablation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "nn/test_models.h"

namespace dp::analysis {
namespace {

ModelConfig two_heads() {
  ModelConfig config = some_configs().front();
  config.num_v_heads.reset();
  config.num_heads = 2;
  return config;
}

at::Tensor* find_value(LanguageModel& model, const std::string& name) {
  for (const auto& [key, parameter] : model.parameters())
    if (key == name) return &parameter->value;
  return nullptr;
}

class Ablation : public testing::Test {
 protected:
  at::Tensor logits(const LanguageModel& model) const { return model.logits(model.features(ids_)); }

  c10::InferenceMode inference_;
  ModelConfig config_ = two_heads();
  LanguageModel model_ = random_model(config_);
  at::Tensor ids_ = random_ids(config_, 3, 9);
};

TEST_F(Ablation, AllHeadsAreTheModel) {
  EXPECT_TRUE(at::equal(logits(with_heads(model_, 1, {true, true})), logits(model_)));
}

TEST_F(Ablation, CuttingChangesTheCopyAlone) {
  const at::Tensor before = logits(model_);
  EXPECT_FALSE(at::allclose(logits(with_heads(model_, 1, {true, false})), before, 1e-3, 1e-3));
  EXPECT_TRUE(at::equal(logits(model_), before));
}

// What feeds the head that is cut does not matter any more; what feeds the other one does.
TEST_F(Ablation, OnlyTheHeadIsCut) {
  const std::string name = "model.layers.1.attn.q_proj.weight";
  LanguageModel changed = random_model(config_);
  const int64_t K = config_.head_dim;
  find_value(changed, name)->narrow(0, K, K).neg_();  // queries of head 1
  EXPECT_TRUE(at::allclose(logits(with_heads(changed, 1, {true, false})),
                           logits(with_heads(model_, 1, {true, false}))));
  EXPECT_FALSE(at::allclose(logits(with_heads(changed, 1, {false, true})),
                            logits(with_heads(model_, 1, {false, true})), 1e-3, 1e-3));
}

TEST_F(Ablation, CuttingAHeadWithoutOutputChangesNothing) {
  const int64_t V = config_.value_head_dim();
  find_value(model_, "model.layers.0.attn.o_proj.weight")->narrow(1, V, V).zero_();
  EXPECT_TRUE(at::equal(logits(with_heads(model_, 0, {true, false})), logits(model_)));
}

TEST_F(Ablation, RefusesWhatIsNotThere) {
  EXPECT_THROW(with_heads(model_, 2, {true, true}), InputError);
  EXPECT_THROW(with_heads(model_, 0, {true}), InputError);
}

}  // namespace
}  // namespace dp::analysis
