#include "ops/linear_cross_entropy.h"

#include <c10/core/InferenceMode.h>

#include "ops/test_pointwise.h"

namespace dp {
namespace {

at::Tensor random_targets(int64_t M, int64_t V, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randint(V, {M}, generator, at::kLong);
}

Tensors arguments(int64_t M, int64_t D, int64_t V) {
  return {{"hidden", normal({M, D}, 1)}, {"weight", normal({V, D}, 2)}};
}

Operator loss_with(const at::Tensor& targets) {
  return [targets](const Tensors& x) {
    return linear_cross_entropy(x.at("hidden"), x.at("weight"), targets).loss;
  };
}

TEST(LinearCrossEntropy, ComposedIsTorchsCrossEntropy) {
  const Tensors x = arguments(9, 4, 7);
  at::Tensor targets = random_targets(9, 7, 3);
  targets[2] = -100;
  const at::Tensor logits = x.at("hidden").matmul(x.at("weight").t());
  const LinearCrossEntropyOutput output =
      linear_cross_entropy(x.at("hidden"), x.at("weight"), targets);
  EXPECT_NEAR(output.loss.item<double>(), at::cross_entropy_loss(logits, targets).item<double>(),
              1e-12);
  EXPECT_TRUE(output.predicted.equal(logits.argmax(1)));
  EXPECT_EQ(output.predicted.scalar_type(), at::kLong);
}

TEST(LinearCrossEntropy, ComposedMatchesFiniteDifferencesTwice) {
  at::Tensor targets = random_targets(3, 4, 3);
  targets[1] = -100;
  expect_finite_differences_agree(loss_with(targets), arguments(3, 2, 4));
}

// 1200 x 8000 logits make three blocks, the others one.
TEST(LinearCrossEntropy, FusedMatchesComposed) {
  for (const auto& [M, D, V] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {5, 3, 2}, {100, 24, 6}, {300, 32, 65}, {1200, 16, 8000}}) {
    SCOPED_TRACE(testing::Message() << "M=" << M << " D=" << D << " V=" << V);
    const Tensors x = arguments(M, D, V);
    at::Tensor targets = random_targets(M, V, 4);
    targets.slice(0, 0, M, 7).fill_(M > 1 ? -100 : 0);
    expect_close(output_and_gradients(loss_with(targets), leaves(x, at::kFloat)),
                 output_and_gradients(loss_with(targets), leaves(x, at::kDouble)), 1e-5);
    const auto fused =
        linear_cross_entropy(x.at("hidden").to(at::kFloat), x.at("weight").to(at::kFloat), targets);
    const auto composed = linear_cross_entropy(x.at("hidden"), x.at("weight"), targets);
    EXPECT_TRUE(fused.predicted.equal(composed.predicted));
    EXPECT_TRUE(close("loss without gradients", fused.loss, composed.loss, 1e-6));
  }
}

TEST(LinearCrossEntropy, UpstreamGradientScales) {
  const at::Tensor targets = random_targets(20, 9, 5);
  const Tensors x = arguments(20, 8, 9), once = leaves(x, at::kFloat),
                thrice = leaves(x, at::kFloat);
  loss_with(targets)(once).backward();
  (3 * loss_with(targets)(thrice)).backward();
  for (const char* name : {"hidden", "weight"})
    EXPECT_TRUE(close(name, thrice.at(name).grad(), 3 * once.at(name).grad(), 1e-6));
}

// The first pass gives its gradients away; later ones compute them again.
TEST(LinearCrossEntropy, BackwardTwiceAddsUp) {
  const at::Tensor targets = random_targets(20, 9, 5);
  const Tensors x = leaves(arguments(20, 8, 9), at::kFloat);
  const at::Tensor loss = loss_with(targets)(x);
  loss.backward({}, /*retain_graph=*/true);
  const at::Tensor first = x.at("weight").grad().clone();
  loss.backward({}, /*retain_graph=*/true);
  loss.backward();
  EXPECT_TRUE(close("dweight", x.at("weight").grad(), 3 * first, 1e-6));
}

// A tied embedding adds its own gradient to the same tensor.
TEST(LinearCrossEntropy, WeightUsedTwice) {
  const at::Tensor targets = random_targets(20, 9, 5);
  Tensors found[2];
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor weight = normal({9, 8}, 6).to(type).requires_grad_();
    linear_cross_entropy(weight.index_select(0, targets.flip(0)), weight, targets).loss.backward();
    found[type == at::kDouble] = {{"dweight", weight.grad()}};
  }
  expect_close(found[0], found[1], 1e-5);
}

TEST(LinearCrossEntropy, NothingCounted) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble})
    for (const int64_t M : {0, 4}) {
      const Tensors x = leaves(arguments(M, 3, 5), type);
      const at::Tensor targets = at::full({M}, -7, at::kLong);
      const auto output = linear_cross_entropy(x.at("hidden"), x.at("weight"), targets, -7);
      EXPECT_EQ(output.loss.item<double>(), 0);
      EXPECT_EQ(output.predicted.size(0), M);
      output.loss.backward();
      EXPECT_EQ(x.at("hidden").grad().abs().sum().item<double>(), 0);
      EXPECT_EQ(x.at("weight").grad().abs().sum().item<double>(), 0);
    }
}

TEST(LinearCrossEntropy, LargeLogitsGiveFiniteResults) {
  const Tensors x = leaves(arguments(10, 4, 6), at::kFloat);
  const Tensors large = {{"hidden", x.at("hidden") * 1e17}, {"weight", x.at("weight") * 1e17}};
  const at::Tensor loss = loss_with(random_targets(10, 6, 3))(large);
  loss.backward();
  EXPECT_TRUE(loss.isfinite().item<bool>());
  EXPECT_TRUE(x.at("hidden").grad().isfinite().all().item<bool>());
}

TEST(LinearCrossEntropy, SixteenBitsAreComputedInFloat32) {
  const at::Tensor targets = random_targets(64, 50, 7);
  const Tensors x = leaves(arguments(64, 16, 50), at::kBFloat16);
  Tensors rounded;
  for (const auto& [name, tensor] : x) rounded[name] = tensor.detach().to(at::kDouble);
  const at::Tensor loss = loss_with(targets)(x);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_TRUE(close("loss", loss, loss_with(targets)(rounded), 1e-5));
  loss.backward();
  EXPECT_EQ(x.at("weight").grad().scalar_type(), at::kBFloat16);
}

TEST(LinearCrossEntropy, AnyStrides) {
  const at::Tensor hidden = normal({6, 20}, 1).to(at::kFloat).t();
  const at::Tensor weight = normal({6, 11}, 2).to(at::kFloat).t();
  const at::Tensor targets = random_targets(40, 11, 3).slice(0, 0, 40, 2);
  const auto got = linear_cross_entropy(hidden, weight, targets);
  const auto want =
      linear_cross_entropy(hidden.contiguous(), weight.contiguous(), targets.contiguous());
  EXPECT_TRUE(close("loss", got.loss, want.loss, 1e-6));
  EXPECT_TRUE(got.predicted.equal(want.predicted));
}

TEST(LinearCrossEntropy, GradientsOnlyWhereAskedAndOnce) {
  const at::Tensor targets = random_targets(20, 9, 5);
  for (const char* wanted : {"hidden", "weight"}) {
    const Tensors all = leaves(arguments(20, 8, 9), at::kFloat);
    loss_with(targets)(all).backward();
    Tensors one = leaves(arguments(20, 8, 9), at::kFloat);
    for (auto& [name, tensor] : one)
      if (name != wanted) tensor = tensor.detach();
    loss_with(targets)(one).backward();
    for (const auto& [name, tensor] : one) EXPECT_EQ(tensor.grad().defined(), name == wanted);
    EXPECT_TRUE(one.at(wanted).grad().equal(all.at(wanted).grad()));
  }
  const Tensors x = leaves(arguments(20, 8, 9), at::kFloat);
  {
    const c10::InferenceMode inference;
    EXPECT_FALSE(loss_with(targets)(x).requires_grad());
  }
  EXPECT_EQ(second_derivative_error(loss_with(targets)(x), x.at("hidden")),
            "linear_cross_entropy: float32 can be differentiated only once; for second "
            "derivatives pass float64.");
}

TEST(TokenLosses, AreTheTermsOfTheMean) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const Tensors x = leaves(arguments(1100, 8, 4000), type);
    const at::Tensor targets = random_targets(1100, 4000, 5);
    const at::Tensor losses = token_losses(x.at("hidden"), x.at("weight"), targets);
    EXPECT_FALSE(losses.requires_grad());
    EXPECT_EQ(losses.scalar_type(), type == at::kDouble ? at::kDouble : at::kFloat);
    const at::Tensor logits =
        x.at("hidden").detach().to(at::kDouble).mm(x.at("weight").detach().to(at::kDouble).t());
    const at::Tensor want = at::cross_entropy_loss(logits, targets, {}, at::Reduction::None);
    EXPECT_TRUE(close("losses", losses, want, 1e-5));
  }
}

TEST(LinearCrossEntropy, Mistakes) {
  const at::Tensor h = at::ones({2, 3}), w = at::ones({4, 3});
  const at::Tensor t = at::zeros({2}, at::kLong);
  const auto error = [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
    return input_error([&] { linear_cross_entropy(a, b, c); });
  };
  EXPECT_EQ(error(h, w, t), "no error");
  EXPECT_EQ(error(at::ones({1, 2, 3}), w, t),
            "linear_cross_entropy: hidden must have shape [M,D], got [1, 2, 3].");
  EXPECT_EQ(
      error(h, at::ones({4, 2}), t),
      "linear_cross_entropy: weight must have shape [V,D] = [V, 3] to match hidden, got [4, 2].");
  EXPECT_EQ(error(h, w.to(at::kDouble), t),
            "linear_cross_entropy: weight must be float32 like hidden, got float64.");
  EXPECT_EQ(error(h, w, t.to(at::kInt)), "linear_cross_entropy: targets must be int64, got int32.");
  EXPECT_EQ(error(h, w, at::zeros({3}, at::kLong)),
            "linear_cross_entropy: targets must have shape [M] = [2] to match hidden, got [3].");
  EXPECT_EQ(error(h, w, at::tensor({0, 4}, at::kLong)),
            "linear_cross_entropy: targets must be in 0 .. 3 or ignore_index -100, got 4 at row "
            "1.");
  EXPECT_EQ(input_error([&] {
              token_losses(h, w, at::tensor({-100, 0}, at::kLong));
            }),
            "token_losses: targets must be in 0 .. 3, got -100 at row 0.");
}

}  // namespace
}  // namespace dp
