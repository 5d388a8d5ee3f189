#include "ops/swiglu.h"

#include <c10/core/InferenceMode.h>

#include "ops/test_pointwise.h"

namespace dp {
namespace {

at::Tensor swiglu_op(const Tensors& x) { return swiglu(x.at("gate"), x.at("up")); }

Tensors swiglu_arguments(at::IntArrayRef sizes) {
  return {{"gate", 2 * normal(sizes, 1)}, {"up", normal(sizes, 2)}};
}

TEST(SwiGluOp, IsTheFormula) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const at::Tensor y = swiglu(at::full({1}, 2.0, type), at::full({1}, 3.0, type));
    EXPECT_NEAR(y.item<double>(), 6 / (1 + std::exp(-2.0)), 1e-6);
  }
}

TEST(SwiGluOp, ComposedMatchesFiniteDifferencesTwice) {
  expect_finite_differences_agree(swiglu_op, swiglu_arguments({2, 3}));
}

TEST(SwiGluOp, FusedMatchesComposed) {
  const std::vector<std::vector<int64_t>> shapes = {{1}, {3, 5}, {2, 3, 129}, {300, 256}, {0, 4}};
  for (const auto& sizes : shapes) {
    SCOPED_TRACE(at::IntArrayRef(sizes));
    const Tensors x = swiglu_arguments(sizes);
    expect_close(output_and_gradients(swiglu_op, leaves(x, at::kFloat)),
                 output_and_gradients(swiglu_op, leaves(x, at::kDouble)), 1e-5);
  }
}

TEST(SwiGluOp, SixteenBitsAreComputedInFloat32) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Tensors x = leaves(swiglu_arguments({50, 64}), type);
    Tensors rounded;
    for (const auto& [name, tensor] : x) rounded[name] = tensor.detach().to(at::kDouble);
    EXPECT_EQ(swiglu_op(x).scalar_type(), type);
    expect_close(output_and_gradients(swiglu_op, x),
                 output_and_gradients(swiglu_op, leaves(rounded, at::kDouble)), 0.01);
  }
}

// The two halves of one projection, and an upstream gradient with strides of zero.
TEST(SwiGluOp, AnyStrides) {
  Tensors found[2];
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor both = normal({5, 14}, 3).to(type).requires_grad_();
    const auto halves = both.chunk(2, 1);
    const at::Tensor y = swiglu(halves[0], halves[1]);
    y.sum().backward();
    found[type == at::kDouble] = {{"y", y}, {"d", both.grad()}};
  }
  expect_close(found[0], found[1], 1e-5);
}

TEST(SwiGluOp, GradientsOnlyWhereAskedAndOnce) {
  const Tensors x = leaves(swiglu_arguments({3, 8}), at::kFloat);
  {
    const c10::InferenceMode inference;
    EXPECT_FALSE(swiglu_op(x).requires_grad());
  }
  EXPECT_FALSE(swiglu(x.at("gate").detach(), x.at("up").detach()).requires_grad());
  swiglu(x.at("gate").detach(), x.at("up")).sum().backward();
  EXPECT_TRUE(x.at("up").grad().defined());
  EXPECT_FALSE(x.at("gate").grad().defined());
  EXPECT_EQ(second_derivative_error(swiglu_op(x), x.at("gate")),
            "swiglu: float32 can be differentiated only once; for second derivatives pass "
            "float64.");
}

TEST(SwiGluOp, Mistakes) {
  const at::Tensor x = at::ones({2, 3});
  EXPECT_EQ(input_error([&] { swiglu(x, at::ones({3})); }),
            "swiglu: up must have shape [2, 3] like gate, got [3].");
  EXPECT_EQ(input_error([&] { swiglu(x, x.to(at::kDouble)); }),
            "swiglu: up must be float32 like gate, got float64.");
  EXPECT_EQ(input_error([&] { swiglu(x, at::Tensor()); }), "swiglu: up is an undefined tensor.");
}

}  // namespace
}  // namespace dp
