// q, k and v as columns of one tensor, and rows that the operator normalises itself, against the plain operator.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/check_input.h"
#include "ops/delta_product.h"
#include "ops/test_inputs.h"

namespace dp {
namespace {

constexpr int64_t kB = 2, kT = 70, kH = 3, kK = 8, kV = 6;

// qkv, beta, log_gate and state in the dtype, each a leaf; keys and queries of any length.
Tensors joined_arguments(at::ScalarType type) {
  Tensors x = random_arguments({kB, kT, 1, kH, kK, kV, true, true}, 31);
  Tensors joined{{"beta", x["beta"]}, {"log_gate", x["log_gate"]}, {"state", x["state"]}};
  joined["qkv"] = at::cat({3 * x["q"].flatten(2), 0.2 * x["k"].flatten(2), x["v"].flatten(2)}, 2);
  return leaves(joined, type);
}

DeltaProductOptions options(const Tensors& x, bool normalise) {
  DeltaProductOptions all;
  all.log_gate = x.at("log_gate"), all.state = x.at("state"), all.normalise_qk = normalise;
  return all;
}

DeltaProductOutput run_joined(const Tensors& x, bool normalise) {
  return delta_product_joined(x.at("qkv"), x.at("beta"), kK, options(x, normalise));
}

at::Tensor unit(const at::Tensor& x) {
  return x / (x.square().sum(-1, /*keepdim=*/true) + 1e-6).sqrt();
}

// Columns sliced and, if asked for, normalised in torch operators, then the plain operator.
DeltaProductOutput run_apart(const Tensors& x, bool normalise, Implementation implementation) {
  const auto columns = [&](int64_t begin, int64_t width) {
    return x.at("qkv").slice(2, begin, begin + kH * width).unflatten(2, {kH, width});
  };
  at::Tensor q = columns(0, kK), k = columns(kH * kK, kK).unsqueeze(2);
  if (normalise) q = unit(q), k = unit(k);
  DeltaProductOptions all = options(x, false);
  all.implementation = implementation;
  return delta_product(q, k, columns(2 * kH * kK, kV).unsqueeze(2), x.at("beta"), all);
}

// Outputs and gradients by name.
Tensors results(const Tensors& x, const DeltaProductOutput& out) {
  Tensors named{{"o", out.o}, {"state", out.state}};
  const at::Tensor loss = out.o.to(at::kFloat).sin().sum() + out.state.to(at::kFloat).sin().sum();
  std::vector<at::Tensor> inputs;
  for (const auto& [name, tensor] : x) inputs.push_back(tensor);
  const auto gradients = torch::autograd::grad({loss}, inputs);
  size_t i = 0;
  for (const auto& [name, tensor] : x) named["d" + name] = gradients[i++];
  return named;
}

TEST(DeltaProductJoined, EqualsColumnsApart) {
  for (const bool normalise : {false, true}) {
    SCOPED_TRACE(normalise);
    const Tensors wide = joined_arguments(at::kDouble), x = joined_arguments(at::kFloat);
    const Tensors want = results(wide, run_apart(wide, normalise, Implementation::kReference));
    expect_close(results(wide, run_joined(wide, normalise)), want, 1e-6);  // the loss is float32
    expect_close(results(x, run_joined(x, normalise)), want, 1e-4);
    // Slices are read where they lie: to the bit as the joined tensor.
    if (normalise) continue;
    const Tensors joined = results(x, run_joined(x, false)),
                  apart = results(x, run_apart(x, false, Implementation::kFused));
    for (const auto& [name, tensor] : joined)
      EXPECT_TRUE(at::equal(tensor, apart.at(name))) << name;
  }
}

TEST(DeltaProductJoined, SixteenBitsPackedAndOneToken) {
  const at::NoGradGuard no_grad;
  const Tensors x = joined_arguments(at::kFloat);
  const DeltaProductOutput want = run_joined(x, true);
  const DeltaProductOutput rounded =
      delta_product_joined(x.at("qkv").to(at::kBFloat16), x.at("beta"), kK, options(x, true));
  EXPECT_EQ(rounded.o.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(close("o", rounded.o.to(at::kFloat), want.o, 0.05));
  const auto rows = [](const at::Tensor& t) { return t.flatten(0, 1).unsqueeze(0); };
  DeltaProductOptions packed = options(x, true);
  packed.log_gate = rows(x.at("log_gate")), packed.cu_seqlens = at::tensor({0, 70, 140});
  EXPECT_TRUE(at::equal(delta_product_joined(rows(x.at("qkv")), rows(x.at("beta")), kK, packed).o,
                        rows(want.o)));
  at::Tensor state = x.at("state");
  for (int64_t t = 0; t < kT; ++t) {  // one token at a time takes the step kernel
    const auto token = [&](const at::Tensor& all) { return all.slice(1, t, t + 1); };
    DeltaProductOptions step = options(x, true);
    step.log_gate = token(x.at("log_gate")), step.state = state;
    const auto out = delta_product_joined(token(x.at("qkv")), token(x.at("beta")), kK, step);
    EXPECT_TRUE(close("o", out.o, token(want.o), 1e-4)) << t;
    state = out.state;
  }
  EXPECT_TRUE(close("state", state, want.state, 1e-4));
}

TEST(DeltaProduct, EveryImplementationNormalisesRows) {
  const Tensors x = random_arguments({2, 40, 2, 2, 16, 10, true, true}, 32);
  const auto run = [&](at::ScalarType type, Implementation implementation, bool here) {
    const Tensors y = leaves(x, type);
    DeltaProductOptions all;
    all.log_gate = y.at("log_gate"), all.state = y.at("state");
    all.implementation = implementation, all.normalise_qk = here;
    const at::Tensor q = 2 * y.at("q"), k = 0.3 * y.at("k");
    return results(
        y, delta_product(here ? q : unit(q), here ? k : unit(k), y.at("v"), y.at("beta"), all));
  };
  const Tensors want = run(at::kDouble, Implementation::kReference, false);
  for (const Implementation implementation : kAll) {
    SCOPED_TRACE(to_string(implementation));
    expect_close(run(at::kFloat, implementation, true), want, 1e-4);
  }
}

TEST(DeltaProductJoined, ColumnsThatDoNotFitAreNamed) {
  try {
    delta_product_joined(at::ones({1, 3, 20}), at::ones({1, 3, 1, 2}), 5);
    FAIL() << "should throw";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "delta_product_joined: qkv must have H * (2 * K + V) columns with H = 2 and K = "
                 "key_width = 5, got 20.");
  }
}

}  // namespace
}  // namespace dp
