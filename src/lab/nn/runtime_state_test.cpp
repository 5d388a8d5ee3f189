// States that were saved here go on in core/runtime, and the other way round.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/test_folder.h"
#include "nn/pretrained.h"
#include "nn/session.h"
#include "nn/test_models.h"
#include "runtime/session.h"

namespace dp {
namespace {

double largest_difference(std::span<const float> got, std::span<const float> want) {
  EXPECT_EQ(got.size(), want.size());
  double largest = 0;
  for (size_t i = 0; i < got.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(got[i]) - want[i]));
  return largest;
}

TEST(RuntimeStates, PassBetweenTheImplementations) {
  const at::NoGradGuard no_grad;
  SerialExecutor serial;
  const TestFolder folder;
  for (const ModelConfig& config : some_configs())
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
      EXPECT_EQ(largest_difference(session.logits(), old.logits()), 0);
      old.feed(6), session.feed(6);
      EXPECT_LT(largest_difference(session.logits(), old.logits()), 1e-4);
      session.save(folder / "state");
      old.restore(folder / "state");
      EXPECT_EQ(largest_difference(session.logits(), old.logits()), 0);
    }
}

}  // namespace
}  // namespace dp
