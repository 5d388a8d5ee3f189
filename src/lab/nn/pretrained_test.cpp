#include "nn/pretrained.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/test_folder.h"
#include "nn/tensors.h"
#include "nn/rivals/test_rivals.h"
#include "nn/test_models.h"

namespace dp {
namespace {
namespace fs = std::filesystem;

class Pretrained : public testing::Test {
 protected:
  std::string error_message() const {
    try {
      load_model(folder_);
    } catch (const InputError& error) {
      std::string text = error.what();
      for (size_t at; (at = text.find(folder_.string())) != std::string::npos;)
        text.replace(at, folder_.string().size(), "DIR");
      return text;
    }
    return "no error";
  }

  const TestFolder temporary_;
  const fs::path folder_ = temporary_ / "model";
};

void expect_same(const LanguageModel& a, const LanguageModel& b) {
  const auto left = a.named_values(), right = b.named_values();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].first, right[i].first);
    EXPECT_TRUE(at::equal(left[i].second, right[i].second)) << left[i].first;
  }
}

TEST_F(Pretrained, ComesBackAsItWasInBothLayouts) {
  for (const ModelConfig& config : some_configs()) {
    for (const bool legacy : {false, true}) {
      SCOPED_TRACE(describe(config));
      const LanguageModel model = random_model(config);
      save_model(model, folder_, {.dtype = {}, .legacy_layout = legacy});
      const LanguageModel loaded = load_model(folder_);
      expect_same(loaded, model);
      EXPECT_EQ(loaded.config().legacy_layout, legacy);
      EXPECT_EQ(loaded.config().num_v_heads, config.num_v_heads);
    }
  }
}

TEST_F(Pretrained, RivalsComeBackAsTheyWere) {
  for (const ModelConfig& config : rival_configs()) {
    SCOPED_TRACE(describe(config));
    for (const char* dtype : {"float32", "bfloat16"}) {
      const LanguageModel model = random_model(config);
      save_model(model, folder_, {.dtype = dtype, .legacy_layout = false});
      const LanguageModel loaded = load_model(folder_);
      EXPECT_EQ(loaded.config().architecture, config.architecture);
      if (std::string(dtype) == "float32") {
        expect_same(loaded, model);
        EXPECT_EQ(to_json(loaded.config()), to_json(config));
      } else {  // as it is: matrices in bfloat16
        const at::NoGradGuard no_grad;
        const at::Tensor ids = random_ids(config, 1, 12);
        const at::Tensor want = reference_logits(config, named_weights(loaded), ids);
        const at::Tensor got = loaded.logits(loaded.features(ids)).to(at::kDouble);
        EXPECT_LT((got - want).abs().max().item<double>(), 1e-4);
      }
    }
    EXPECT_THROW(save_model(random_model(config), folder_, {.dtype = {}, .legacy_layout = true}),
                 InputError);
  }
}

TEST_F(Pretrained, LegacyLayoutHasOneTensorPerFactor) {
  ModelConfig config = some_configs()[6];
  config.num_householder = 3;
  save_model(random_model(config), folder_, {.dtype = {}, .legacy_layout = true});
  const Checkpoint checkpoint = Checkpoint::open(folder_);
  for (const char* name : {"k_projs.2.weight", "v_projs.0.weight", "b_projs.1.weight",
                           "k_conv1ds.2.weight", "q_conv1ds.2.weight"})
    EXPECT_TRUE(checkpoint.has(std::string("model.layers.1.attn.") + name)) << name;
  EXPECT_FALSE(checkpoint.has("model.layers.1.attn.k_proj.weight"));
}

TEST_F(Pretrained, RoundsOnceToBFloat16) {
  const LanguageModel model = random_model(some_configs()[5]);
  save_model(model, folder_, {.dtype = "bfloat16", .legacy_layout = false});
  const LanguageModel loaded = load_model(folder_);
  EXPECT_EQ(loaded.config().dtype, "bfloat16");
  const auto want = model.named_values(), got = loaded.named_values();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(
        at::equal(got[i].second.to(at::kFloat), want[i].second.to(at::kBFloat16).to(at::kFloat)))
        << want[i].first;
    const bool matrix = want[i].second.dim() == 2;
    EXPECT_EQ(got[i].second.scalar_type(), matrix ? at::kBFloat16 : at::kFloat) << want[i].first;
  }
}

TEST_F(Pretrained, FloatWeightsAreNotCopied) {
  save_model(random_model(some_configs()[5]), folder_);
  const LanguageModel loaded = load_model(folder_);
  // Torch can resize what it allocated, and not what lies in a mapped file.
  for (const auto& [name, value] : loaded.named_values())
    EXPECT_FALSE(value.storage().resizable()) << name;
}

TEST_F(Pretrained, ModelsTrainedElsewhereMayStillBeTrained) {
  save_model(random_model(some_configs()[5]), folder_);
  LanguageModel model = load_model(folder_);
  make_trainable(model);
  for (const auto& [name, value] : model.named_values()) {
    EXPECT_TRUE(value.requires_grad()) << name;
    EXPECT_TRUE(value.storage().resizable()) << name;
  }
}

TEST_F(Pretrained, NamesTheTensorAtFault) {
  const LanguageModel model = random_model(some_configs()[0]);
  auto tensors = model.named_values();
  const auto write = [&](const auto& list) {
    save_model(model, folder_);
    write_checkpoint(folder_, list);
  };
  auto missing = tensors;
  missing.pop_back();
  write(missing);
  EXPECT_NE(error_message().find("lm_head.weight"), std::string::npos) << error_message();

  auto unknown = tensors;
  unknown.emplace_back("model.layers.0.attn.x_proj.weight", at::zeros({2}));
  write(unknown);
  EXPECT_EQ(error_message(),
            "DIR: tensor 'model.layers.0.attn.x_proj.weight' has no place in the model that "
            "config.json describes");

  auto wrong = tensors;
  wrong[0].second = at::zeros({19, 21});
  write(wrong);
  EXPECT_EQ(error_message(),
            "DIR: tensor 'model.embeddings.weight' has shape [19, 21], expected [19, 20] from "
            "config.json");

  auto integers = tensors;
  integers[0].second = at::zeros({19, 20}, at::kLong);
  write(integers);
  EXPECT_EQ(error_message(),
            "DIR: tensor 'model.embeddings.weight' holds Long, expected floating-point numbers");
}

TEST_F(Pretrained, ADirectoryWithoutAModelIsNamed) {
  EXPECT_NE(error_message().find("is not a model"), std::string::npos) << error_message();
}

}  // namespace
}  // namespace dp
