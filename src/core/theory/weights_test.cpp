#include "theory/weights.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "runtime/runner.h"
#include "theory/compile.h"

namespace dp::theory {
namespace {

std::vector<float> logits(std::shared_ptr<const runtime::Model> model, const Problem& problem) {
  SerialExecutor serial;
  runtime::Runner runner(std::move(model), serial);
  runtime::State state;
  const std::vector<int64_t> tokens = {problem.bos, problem.symbol_tokens.back(),
                                       problem.symbol_tokens.front()};
  std::vector<float> result(tokens.size() * static_cast<size_t>(problem.vocab_size));
  runner.logits(runner.features({tokens, &state}), result);
  return result;
}

TEST(Weights, AreTheSameAfterSaving) {
  const TestFolder folder;
  for (const Compiled& compiled : {compile_group("A5", {}, {}), compile_recall({"a", "b"}, 3, {})})
    for (const bool bfloat16 : {false, true}) {
      const Weights weights = compiled.weights(bfloat16);
      save_weights(weights, folder / "model");
      const auto opened = runtime::Model::open(folder / "model", runtime::Zeros::kLeaveOut);
      EXPECT_EQ(opened->config().dtype, bfloat16 ? "bfloat16" : "float32");
      EXPECT_EQ(logits(opened, compiled.problem), logits(weights.model(), compiled.problem));
    }
}

}  // namespace
}  // namespace dp::theory
