#include "ops/rms_norm.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <limits>

#include "ops/test_pointwise.h"

namespace dp {
namespace {

constexpr double kEps = 1e-5;

at::Tensor plain(const Tensors& x) { return rms_norm(x.at("x"), x.at("weight"), kEps); }
at::Tensor gated(const Tensors& x) {
  return gated_rms_norm(x.at("x"), x.at("gate"), x.at("weight"), kEps);
}

Tensors norm_arguments(at::IntArrayRef sizes, bool with_gate) {
  Tensors x = {{"x", normal(sizes, 1)}, {"weight", normal({sizes.back()}, 2)}};
  if (with_gate) x["gate"] = normal(sizes, 3);
  return x;
}

TEST(RmsNormOp, IsTheFormula) {
  const at::Tensor x = at::tensor({3.0, 4.0}, at::kDouble).view({1, 2});
  const at::Tensor weight = at::tensor({1.0, 10.0}, at::kDouble);
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const at::Tensor y = rms_norm(x.to(type), weight.to(type), 12.0);  // 12.5 + 12 = 4.9497^2
    EXPECT_NEAR(y[0][0].item<double>(), 3 / std::sqrt(24.5), 1e-6);
    EXPECT_NEAR(y[0][1].item<double>(), 40 / std::sqrt(24.5), 1e-6);
    const at::Tensor gate = at::tensor({0.0, 2.0}, at::kDouble).view({1, 2}).to(type);
    const at::Tensor z = gated_rms_norm(x.to(type), gate, weight.to(type), 12.0);
    EXPECT_EQ(z[0][0].item<double>(), 0);
    EXPECT_NEAR(z[0][1].item<double>(), 40 / std::sqrt(24.5) * 2 / (1 + std::exp(-2.0)), 1e-6);
  }
}

TEST(RmsNormOp, ComposedMatchesFiniteDifferencesTwice) {
  expect_finite_differences_agree(plain, norm_arguments({2, 4}, false));
  expect_finite_differences_agree(gated, norm_arguments({2, 3}, true));
}

TEST(RmsNormOp, FusedMatchesComposed) {
  const std::vector<std::vector<int64_t>> shapes = {{7}, {3, 1}, {2, 3, 5, 32}, {600, 128}, {0, 8}};
  for (const auto& sizes : shapes)
    for (const bool with_gate : {false, true}) {
      SCOPED_TRACE(testing::Message() << at::IntArrayRef(sizes) << " gate " << with_gate);
      const Tensors x = norm_arguments(sizes, with_gate);
      const Operator op = with_gate ? gated : plain;
      Tensors got = output_and_gradients(op, leaves(x, at::kFloat));
      Tensors want = output_and_gradients(op, leaves(x, at::kDouble));
      if (sizes.back() == 1) got.erase("dx"), want.erase("dx");  // eps r^3 dy: all cancellation
      expect_close(got, want, 1e-5);
    }
}

TEST(RmsNormOp, SixteenBitsAreComputedInFloat32) {
  const Tensors x = leaves(norm_arguments({50, 64}, true), at::kBFloat16);
  const at::Tensor y = gated(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  Tensors rounded;
  for (const auto& [name, tensor] : x) rounded[name] = tensor.detach().to(at::kDouble);
  const Tensors want = output_and_gradients(gated, leaves(rounded, at::kDouble));
  Tensors y_and_gradients = output_and_gradients(gated, x);
  EXPECT_EQ(x.at("x").grad().scalar_type(), at::kBFloat16);
  y_and_gradients.erase("dweight");  // its upstream gradient is rounded as well, 50 times
  Tensors expected = want;
  expected.erase("dweight");
  expect_close(y_and_gradients, expected, 0.01);
  const at::Tensor wide_weight = rounded.at("weight").to(at::kFloat);
  EXPECT_TRUE(rms_norm(x.at("x"), wide_weight, kEps).equal(plain(x)));
}

TEST(RmsNormOp, AnyStrides) {
  const at::Tensor base = normal({6, 10, 5}, 4).to(at::kFloat);
  const at::Tensor x = base.transpose(0, 2), gate = base.flip(0).transpose(0, 2);
  const at::Tensor weight = normal({12}, 5).to(at::kFloat).slice(0, 0, 12, 2);
  EXPECT_TRUE(
      gated_rms_norm(x, gate, weight, kEps)
          .equal(gated_rms_norm(x.contiguous(), gate.contiguous(), weight.contiguous(), kEps)));
  // An upstream gradient with strides of zero, as sum() gives.
  const at::Tensor leaf = x.contiguous().requires_grad_();
  rms_norm(leaf, weight, kEps).sum().backward();
  const at::Tensor wide = x.to(at::kDouble).contiguous().requires_grad_();
  rms_norm(wide, weight.to(at::kDouble), kEps).sum().backward();
  expect_close(Tensors{{"dx", leaf.grad()}}, Tensors{{"dx", wide.grad()}}, 1e-5);
}

TEST(RmsNormOp, GradientsOnlyWhereAskedAndOnce) {
  Tensors x = leaves(norm_arguments({3, 8}, true), at::kFloat);
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(gated(x).requires_grad());
  }
  {
    const c10::InferenceMode inference;
    EXPECT_FALSE(gated(x).requires_grad());
  }
  EXPECT_EQ(second_derivative_error(gated(x), x.at("gate")),
            "gated_rms_norm: float32 can be differentiated only once; for second derivatives pass "
            "float64.");
  EXPECT_EQ(second_derivative_error(plain(x), x.at("x")),
            "rms_norm: float32 can be differentiated only once; for second derivatives pass "
            "float64.");
  x["x"] = x.at("x").detach(), x["gate"] = x.at("gate").detach();
  EXPECT_FALSE(rms_norm(x.at("x"), x.at("weight").detach(), kEps).requires_grad());
  gated(x).sum().backward();
  EXPECT_TRUE(x.at("weight").grad().defined());
}

TEST(RmsNormOp, Mistakes) {
  const at::Tensor x = at::ones({2, 3}), w = at::ones({3});
  const auto plain_error = [](const at::Tensor& a, const at::Tensor& b, double eps) {
    return input_error([&] { rms_norm(a, b, eps); });
  };
  EXPECT_EQ(plain_error(x, at::ones({4}), kEps),
            "rms_norm: weight must have shape [D] = [3] to match x, got [4].");
  EXPECT_EQ(plain_error(x.to(at::kLong), w, kEps),
            "rms_norm: x must be float32, float64, bfloat16 or float16, got int64.");
  EXPECT_EQ(plain_error(at::ones({}), w, kEps),
            "rms_norm: x must have shape [...,D] with D >= 1, got [].");
  EXPECT_EQ(plain_error(x, w.to(at::kDouble), kEps),
            "rms_norm: weight must be float32 like x, got float64.");
  EXPECT_EQ(plain_error(x.to(at::kBFloat16), w.to(at::kDouble), kEps),
            "rms_norm: weight must be bfloat16 like x or float32, got float64.");
  EXPECT_EQ(plain_error(at::Tensor(), w, kEps), "rms_norm: x is an undefined tensor.");
  EXPECT_EQ(plain_error(x, w, 0), "rms_norm: eps must be positive and finite, got 0.");
  EXPECT_EQ(plain_error(x, w, std::numeric_limits<double>::quiet_NaN()),
            "rms_norm: eps must be positive and finite, got nan.");
  EXPECT_EQ(input_error([&] {
              gated_rms_norm(x, at::ones({3, 2}), w, kEps);
            }),
            "gated_rms_norm: gate must have shape [2, 3] like x, got [3, 2].");
}

}  // namespace
}  // namespace dp
