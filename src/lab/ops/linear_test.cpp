#include "ops/linear.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "ops/test_pointwise.h"

namespace dp {
namespace {

at::Tensor expected(const at::Tensor& x, const at::Tensor& weight) {
  return at::matmul(x.detach().to(at::kDouble), weight.detach().to(at::kDouble).t());
}

TEST(LinearOp, MatchesDoublePrecisionForAnyNumberOfRows) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const int64_t M : {0, 1, 2, 5, 8, 16, 17, 32, 33})
      for (const auto& [I, O] :
           std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {33, 7}, {128, 300}}) {
        const at::Tensor x = normal({M, I}, 1).to(at::kFloat);
        const at::Tensor weight = normal({O, I}, 2).to(type);
        const at::Tensor y = dp::linear(x, weight);
        EXPECT_EQ(y.scalar_type(), at::kFloat);
        EXPECT_TRUE(close("y", y, expected(x, weight), 1e-6))
            << type << " M=" << M << " I=" << I << " O=" << O;
      }
}

// Wider than what is turned to float32 at once.
TEST(LinearOp, WidensBFloat16InBlocks) {
  const at::Tensor x = normal({40, 2048}, 3).to(at::kFloat);
  const at::Tensor weight = normal({2500, 2048}, 4).to(at::kBFloat16);
  EXPECT_TRUE(close("y", dp::linear(x, weight), expected(x, weight), 1e-6));
}

TEST(LinearOp, KeepsLeadingDimensions) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor weight = normal({5, 6}, 2).to(type);
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{6}, {2, 3, 6}, {2, 1, 6}, {3, 7, 6}, {0, 6}}) {
      const at::Tensor x = normal(sizes, 1).to(at::kFloat);
      EXPECT_TRUE(close("y", dp::linear(x, weight), expected(x, weight), 1e-6));
    }
  }
}

TEST(LinearOp, AnyStrides) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const int64_t M : {3, 40}) {
      const at::Tensor x = normal({64, M}, 1).to(at::kFloat).t();
      const at::Tensor weight = normal({64, 50}, 2).to(type).t();
      EXPECT_TRUE(close("y", dp::linear(x, weight), expected(x, weight), 1e-6)) << type;
    }
}

// A weight in a mapped file starts anywhere.
TEST(LinearOp, WeightsAlignedToOneElement) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor memory = normal({1 + 10 * 40}, 2).to(type);
    const at::Tensor weight = memory.slice(0, 1).view({10, 40});
    const at::Tensor x = normal({2, 40}, 1).to(at::kFloat);
    EXPECT_TRUE(close("y", dp::linear(x, weight), expected(x, weight), 1e-6)) << type;
  }
}

TEST(LinearOp, IsDifferentiable) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = normal({2, 7}, 1).to(at::kFloat).requires_grad_();
    const at::Tensor weight = normal({3, 7}, 2).to(type).requires_grad_();
    const at::Tensor y = dp::linear(x, weight);
    EXPECT_TRUE(close("y", y, expected(x, weight), 1e-6));
    const at::Tensor dy = normal({2, 3}, 3).to(at::kFloat);
    y.backward(dy);
    EXPECT_TRUE(close("dx", x.grad(), at::matmul(dy, weight.detach().to(at::kFloat)), 1e-6));
    const double rounding = type == at::kFloat ? 1e-6 : 0.005;
    EXPECT_TRUE(close("dweight", weight.grad(), at::matmul(dy.t(), x.detach()), rounding));
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(dp::linear(x, weight).requires_grad());
  }
}

// What is computed depends on the shape and the mode, not on whether gradients are recorded.
TEST(LinearOp, RecordingGradientsDoesNotChangeABit) {
  for (const LinearMode mode : {LinearMode::kByShape, LinearMode::kTorch})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
      for (const int64_t M : {1, 5, 16, 17, 33, 96, 97}) {
        const at::Tensor x = normal({M, 67}, 1).to(at::kFloat).requires_grad_();
        const at::Tensor weight = normal({31, 67}, 2).to(type).requires_grad_();
        const at::Tensor recorded = dp::linear(x, weight, mode);
        EXPECT_TRUE(recorded.requires_grad());
        const at::NoGradGuard no_grad;
        EXPECT_TRUE(at::equal(dp::linear(x, weight, mode), recorded)) << type << " M=" << M;
      }
}

TEST(LinearOp, GradientsOfEveryPathMatchTorchs) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const int64_t M : {3, 40, 120}) {  // small and medium batches, widened weights
      Tensors got, want;
      for (const LinearMode mode : {LinearMode::kByShape, LinearMode::kTorch}) {
        const at::Tensor x = normal({2, M, 67}, 1).to(at::kFloat).requires_grad_();
        const at::Tensor weight = normal({31, 67}, 2).to(type).requires_grad_();
        dp::linear(x, weight, mode).sin().sum().backward();
        Tensors& gradients = mode == LinearMode::kByShape ? got : want;
        gradients = {{"dx", x.grad()}, {"dweight", weight.grad()}};
      }
      EXPECT_EQ(got.at("dweight").scalar_type(), type);
      EXPECT_TRUE(close("dx", got.at("dx"), want.at("dx"), 1e-5)) << type << " M=" << M;
      EXPECT_TRUE(close("dweight", got.at("dweight"), want.at("dweight"),
                        type == at::kFloat ? 1e-5 : 0x1p-7))
          << type << " M=" << M;
    }
}

TEST(LinearOp, TorchModeHasSecondDerivatives) {
  const at::Tensor x = normal({3, 7}, 1).to(at::kFloat).requires_grad_();
  const at::Tensor weight = normal({5, 7}, 2).to(at::kFloat).requires_grad_();
  EXPECT_EQ(second_derivative_error(dp::linear(x, weight, LinearMode::kTorch), x), "no error");
  EXPECT_EQ(second_derivative_error(dp::linear(x, weight), x),
            "linear: mode \"by_shape\" can be differentiated only once; for second derivatives "
            "pass mode \"torch\".");
}

TEST(LinearOp, OtherTypesTakeTorchs) {
  const at::Tensor x = normal({2, 7}, 1), weight = normal({3, 7}, 2);
  EXPECT_TRUE(dp::linear(x, weight).equal(at::linear(x, weight)));
  const at::Tensor y = dp::linear(x.to(at::kBFloat16), weight.to(at::kBFloat16));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
}

TEST(LinearOp, ThreadsDoNotChangeABit) {
  const int threads = at::get_num_threads();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = normal({3, 400}, 1).to(at::kFloat);
    const at::Tensor weight = normal({1001, 400}, 2).to(type);
    at::set_num_threads(1);
    const at::Tensor one = dp::linear(x, weight);
    at::set_num_threads(3);
    EXPECT_TRUE(dp::linear(x, weight).equal(one));
    at::set_num_threads(threads);
  }
}

TEST(LinearOp, EveryMistakeGetsItsSentence) {
  const at::Tensor x = at::ones({2, 6});
  const auto error = [&](const at::Tensor& input, const at::Tensor& weight) {
    return input_error([&] { dp::linear(input, weight); });
  };
  EXPECT_EQ(error(x, at::ones({4, 5})),
            "linear: weight must have shape [O,I] = [O, 6] to match x, got [4, 5].");
  EXPECT_EQ(error(x, at::ones({6})),
            "linear: weight must have shape [O,I] = [O, 6] to match x, got [6].");
  EXPECT_EQ(error(x, at::ones({4, 6}, at::kDouble)),
            "linear: weight must be float32 like x, got float64.");
  EXPECT_EQ(error(x.to(at::kDouble), at::ones({4, 6}, at::kBFloat16)),
            "linear: weight must be float64 like x, got bfloat16.");
  EXPECT_EQ(error(x.to(at::kLong), at::ones({4, 6})),
            "linear: x must be float32, float64, bfloat16 or float16, got int64.");
  EXPECT_EQ(error(x, at::Tensor()), "linear: weight is an undefined tensor.");
}

}  // namespace
}  // namespace dp
