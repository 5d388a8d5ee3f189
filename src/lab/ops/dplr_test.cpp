#include "ops/dplr.h"

#include <ATen/core/grad_mode.h>

#include "ops/test_pointwise.h"

namespace dp {
namespace {

DplrOptions call_options(const Tensors& x) {
  DplrOptions options;
  if (x.contains("a")) options.a = x.at("a"), options.b = x.at("b");
  if (x.contains("state")) options.state = x.at("state");
  return options;
}

// Both outputs in one tensor.
at::Tensor both(const DplrOutput& output) {
  return at::cat({output.o.flatten(), output.state.flatten()});
}

at::Tensor run_dplr(const Tensors& x) {
  return both(dplr(x.at("q"), x.at("w"), x.at("k"), x.at("v"), call_options(x)));
}

Tensors dplr_arguments(int64_t B, int64_t T, int64_t N, int64_t H, int64_t K, int64_t V,
                       bool rank_one) {
  Tensors x = {{"q", normal({B, T, H, K}, 1)},
               {"w", at::sigmoid(normal({B, T, N, H, K}, 2)).to(at::kFloat).to(at::kDouble)},
               {"k", normal({B, T, N, H, K}, 3) / 2},
               {"v", normal({B, T, N, H, V}, 4)},
               {"state", normal({B, H, K, V}, 5)}};
  if (rank_one) {
    x["a"] = normal({B, T, N, H, K}, 6) / 4;
    x["b"] = normal({B, T, N, H, K}, 7) / 4;
  }
  return x;
}

TEST(Dplr, KernelEqualsTheRecurrenceInFloat64) {
  for (const bool rank_one : {false, true}) {
    const Tensors x = dplr_arguments(2, 37, rank_one ? 2 : 1, 3, 7, 5, rank_one);
    const Tensors want = output_and_gradients(run_dplr, leaves(x, at::kDouble)),
                  got = output_and_gradients(run_dplr, leaves(x, at::kFloat));
    for (const auto& [name, value] : want)
      EXPECT_LT(
          (got.at(name) - value).abs().max().item<double>() / value.abs().max().item<double>(),
          3e-6)
          << name;
  }
}

// Without a rank-one part, H_T = sum over s of (product of later gates) k_s v_s^T: no recurrence at all.
TEST(Dplr, GatesAloneAreASumOverThePast) {
  Tensors x = dplr_arguments(1, 9, 1, 2, 4, 3, false);
  x.erase("state");
  const DplrOutput got = dplr(x["q"], x["w"], x["k"], x["v"]);
  for (int64_t t = 0; t < 9; ++t) {
    at::Tensor o = at::zeros({2, 3}, at::kDouble);
    for (int64_t s = 0; s <= t; ++s) {
      const at::Tensor decay = x["w"].slice(1, s + 1, t + 1).prod(1).squeeze(0).squeeze(0);
      const at::Tensor k = x["k"].select(1, s).squeeze(0).squeeze(0) * decay;
      const at::Tensor score = (x["q"].select(1, t).squeeze(0) * k).sum(-1, true);
      o = o + score * x["v"].select(1, s).squeeze(0).squeeze(0);
    }
    EXPECT_LT((got.o.select(1, t).squeeze(0) - o).abs().max().item<double>(), 1e-12);
  }
}

TEST(Dplr, SplitAndPackedSequencesAreTheSame) {
  const Tensors x = leaves(dplr_arguments(1, 20, 2, 2, 5, 4, true), at::kFloat);
  const at::NoGradGuard no_grad;
  const DplrOutput whole = dplr(x.at("q"), x.at("w"), x.at("k"), x.at("v"), call_options(x));
  const auto part = [&](int64_t begin, int64_t end, const at::Tensor& state) {
    DplrOptions options = call_options(x);
    options.a = x.at("a").slice(1, begin, end), options.b = x.at("b").slice(1, begin, end);
    options.state = state;
    return dplr(x.at("q").slice(1, begin, end), x.at("w").slice(1, begin, end),
                x.at("k").slice(1, begin, end), x.at("v").slice(1, begin, end), options);
  };
  const DplrOutput first = part(0, 7, x.at("state")), second = part(7, 20, first.state);
  EXPECT_TRUE(at::allclose(at::cat({first.o, second.o}, 1), whole.o, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(second.state, whole.state, 1e-5, 1e-6));

  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    DplrOptions options;
    options.cu_seqlens = at::tensor({0, 7, 7, 20}, at::kLong);
    options.a = x.at("a").to(type), options.b = x.at("b").to(type);
    const at::Tensor empty = at::zeros_like(x.at("state"));
    options.state = at::cat({x.at("state"), empty, first.state}, 0).to(type);
    const DplrOutput packed = dplr(x.at("q").to(type), x.at("w").to(type), x.at("k").to(type),
                                   x.at("v").to(type), options);
    EXPECT_TRUE(at::allclose(packed.o.to(at::kFloat), whole.o, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(packed.state[0].to(at::kFloat), first.state[0], 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(packed.state[2].to(at::kFloat), whole.state[0], 1e-5, 1e-6));
  }
}

TEST(Dplr, FiniteDifferences) {
  expect_finite_differences_agree(run_dplr, dplr_arguments(1, 3, 2, 1, 2, 2, true));
}

TEST(Dplr, OnlyOnceDifferentiableInFloat32) {
  const Tensors x = leaves(dplr_arguments(1, 3, 1, 1, 2, 2, false), at::kFloat);
  EXPECT_NE(second_derivative_error(run_dplr(x), x.at("k")).find("pass float64"),
            std::string::npos);
}

TEST(Dplr, MistakesAreNamed) {
  Tensors x = dplr_arguments(2, 3, 1, 2, 4, 5, true);
  const auto error = [&](const std::string& name, const at::Tensor& wrong) {
    Tensors y = x;
    y[name] = wrong;
    return input_error([&] { run_dplr(y); });
  };
  EXPECT_EQ(error("q", x["q"].slice(1, 0, 2)),
            "dplr: q must have shape [B,T,H,K] = [2, 3, 2, 4] to match k, got [2, 2, 2, 4].");
  EXPECT_EQ(error("k", x["k"].select(2, 0)),
            "dplr: k must have shape [B,T,N,H,K], got [2, 3, 2, 4].");
  EXPECT_NE(error("w", x["w"].slice(4, 0, 3)).find("w must have"), std::string::npos);
  EXPECT_NE(error("v", x["v"].to(at::kFloat)).find("v must"), std::string::npos);
  EXPECT_NE(error("state", x["state"].slice(0, 0, 1)).find("state must have shape [S,H,K,V]"),
            std::string::npos);
  x.erase("b");
  EXPECT_EQ(input_error([&] { dplr(x["q"], x["w"], x["k"], x["v"], {.a = x["a"]}); }),
            "dplr: a and b must be given both or neither, got one.");
}

}  // namespace
}  // namespace dp
