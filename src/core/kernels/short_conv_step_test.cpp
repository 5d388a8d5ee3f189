// Steps against the kernel for whole sequences, on every SIMD target of this machine.
#include "kernels/short_conv_step.h"

#include "kernels/short_conv.h"
#include "kernels/test_arrays.h"

namespace dp::short_conv_step_test {
namespace {

using ShortConvStepOnEveryTarget = PointwiseOnEveryTarget;

TEST_P(ShortConvStepOnEveryTarget, EqualsWholeSequences) {
  SerialExecutor serial;
  const size_t T = 7;
  for (const size_t W : {0, 1, 3, 4})
    for (const auto& [C, head_size] :
         std::vector<std::pair<size_t, size_t>>{{1, 0}, {6, 3}, {40, 0}, {40, 20}, {64, 64}})
      for (const bool has_bias : {false, true}) {
        if (has_bias && W == 0) continue;
        SCOPED_TRACE(testing::Message() << "W=" << W << " C=" << C << " head " << head_size);
        Floats x = normal_floats(T * C, 1);
        x[0] = 3e20f;  // its square is no float32
        const Floats weight = normal_floats(C * W, 2), bias = normal_floats(C, 3);
        Floats history = normal_floats(W * C, 4), taps(C * W), want(T * C), got(T * C, kNaN);
        for (size_t c = 0; c < C; ++c)
          for (size_t w = 0; w < W; ++w) taps[w * C + c] = weight[c * W + w];
        const int64_t offsets[] = {0, T};
        ShortConvInputs in;
        in.num_sequences = 1, in.offsets = offsets, in.C = C, in.W = W, in.head_size = head_size;
        in.x = x.data();
        if (W > 0) in.weight = weight.data(), in.history = history.data();
        if (has_bias) in.bias = bias.data();
        short_conv_forward(in, want.data(), serial);
        const ShortConvStep step{C, W, head_size, taps.data(), has_bias ? bias.data() : nullptr};
        for (size_t t = 0; t < T; ++t)
          short_conv_step(step, x.data() + t * C, history.data(), got.data() + t * C);
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], want[i], 2e-6 * (1 + std::abs(want[i]))) << "element " << i;
        for (size_t w = 0; w < W; ++w)
          for (size_t c = 0; c < C; ++c) ASSERT_EQ(history[w * C + c], x[(T - W + w) * C + c]);
      }
}

DP_INSTANTIATE_ON_EVERY_TARGET(ShortConvStepOnEveryTarget);

}  // namespace
}  // namespace dp::short_conv_step_test
