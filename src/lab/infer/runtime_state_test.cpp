// States that were saved here go on in core/runtime, and the other way round.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "infer/session.h"
#include "nn/pretrained.h"
#include "nn/test_models.h"
#include "runtime/session.h"

namespace dp {
namespace {

double distance(std::span<const float> got, const at::Tensor& want) {
  const at::Tensor tensor =
      at::from_blob(const_cast<float*>(got.data()), {static_cast<int64_t>(got.size())}, at::kFloat);
  return (tensor - want).abs().max().item<double>();
}

TEST(RuntimeStates, PassBetweenTheImplementations) {
  const at::NoGradGuard no_grad;
  SerialExecutor serial;
  const TestFolder folder;
  for (const ModelConfig& config : test_configs())
    for (const bool bfloat16 : {false, true}) {
      SCOPED_TRACE(describe(config));
      SaveOptions options;
      if (bfloat16) options.dtype = "bfloat16";
      save_model(random_model(config), folder / "model", options);
      runtime::Runner runner(runtime::Model::open(folder / "model"), serial);
      Session old(std::make_shared<const LanguageModel>(load_model(folder / "model")));
      runtime::Session session(runner);
      const std::vector<int64_t> tokens = {3, 1, 4, 1, 5, 9, 2};
      old.feed(tokens);
      old.save(folder / "state");
      session.restore(folder / "state");
      EXPECT_EQ(session.tokens_seen(), 7);
      EXPECT_EQ(distance(session.logits(), old.logits()), 0);
      old.feed(6), session.feed(6);
      EXPECT_LT(distance(session.logits(), old.logits()), 1e-4);
      session.save(folder / "state");
      old.restore(folder / "state");
      EXPECT_EQ(distance(session.logits(), old.logits()), 0);
    }
}

}  // namespace
}  // namespace dp
