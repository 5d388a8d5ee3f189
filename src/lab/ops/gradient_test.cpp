// Gradients against finite differences, and what the graph of gradients keeps and refuses.
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/test_inputs.h"
#include "ops/test_memory.h"

namespace dp {
namespace {

// A smooth scalar of both outputs.
at::Tensor loss(const Tensors& x, Implementation implementation) {
  const DeltaProductOutput output = call(x, implementation);
  return output.o.sin().sum() + (output.state * output.state).sum();
}

TEST(Gradients, MatchFiniteDifferences) {
  for (const TestShape& shape :
       {TestShape{1, 4, 2, 2, 3, 2, true, true}, {2, 3, 1, 1, 2, 3, false, true}}) {
    const Tensors x = random_arguments(shape, 20);
    for (const Implementation implementation :
         {Implementation::kReference, Implementation::kChunked}) {
      const Tensors y = leaves(x, at::kDouble);
      loss(y, implementation).backward();
      at::NoGradGuard no_grad;
      for (const auto& [name, tensor] : y) {
        const at::Tensor values = tensor.view({-1}), grad = tensor.grad().reshape({-1});
        for (int64_t i = 0; i < values.numel(); ++i) {
          const double old = values[i].item<double>(), step = 1e-5;
          values[i].fill_(old + step);
          const double above = loss(y, implementation).item<double>();
          values[i].fill_(old - step);
          const double below = loss(y, implementation).item<double>();
          values[i].fill_(old);
          ASSERT_NEAR(grad[i].item<double>(), (above - below) / (2 * step), 1e-7)
              << to_string(implementation) << " " << shape << " d" << name << "[" << i << "]";
        }
      }
    }
  }
}

// An output that nobody used has an undefined gradient, which counts as zeros.
TEST(Gradients, ThroughOneOutputOnly) {
  const Tensors x = random_arguments({2, 8, 2, 2, 8, 6, true, true}, 21);
  for (const bool through_state : {false, true}) {
    Tensors want;
    for (const Implementation implementation : kAll) {
      SCOPED_TRACE(testing::Message()
                   << to_string(implementation) << (through_state ? " state" : " o"));
      const Tensors y =
          leaves(x, implementation == Implementation::kReference ? at::kDouble : at::kFloat);
      const DeltaProductOutput output = call(y, implementation);
      const at::Tensor& used = through_state ? output.state : output.o;
      (used * used).sum().backward();
      Tensors got;
      // The state does not depend on q: no gradient, or one of zeros.
      for (const auto& [name, tensor] : y)
        if (!(through_state && name == "q")) got["d" + name] = tensor.grad();
      if (want.empty()) want = got;
      expect_close(got, want, 1e-5);
    }
  }
}

TEST(Gradients, OnlyWhereAsked) {
  const Tensors x = random_arguments({1, 10, 2, 2, 8, 6, true, true}, 22);
  for (const char* wanted : {"q", "k", "v", "beta", "log_gate", "state"}) {
    Tensors y = leaves(x, at::kFloat);
    for (auto& [name, tensor] : y)
      if (name != wanted) tensor = tensor.detach();
    loss(y, Implementation::kFused).backward();
    for (const auto& [name, tensor] : y) EXPECT_EQ(tensor.grad().defined(), name == wanted) << name;
  }
}

TEST(Gradients, FusedIsDifferentiableOnce) {
  const Tensors y = leaves(random_arguments({1, 6, 2, 1, 4, 4, true, true}, 23), at::kFloat);
  const auto first = torch::autograd::grad({loss(y, Implementation::kFused)}, {y.at("k")}, {},
                                           /*retain_graph=*/true, /*create_graph=*/true);
  try {
    first[0].sum().backward();
    FAIL() << "a second derivative should throw";
  } catch (const c10::Error& error) {
    EXPECT_EQ(error.msg(),
              "delta_product: implementation \"fused\" can be differentiated only once; for second "
              "derivatives pass implementation \"chunked\" or \"reference\".");
  }
}

TEST(Gradients, SecondDerivativesOfReferenceAndChunkedAgree) {
  const Tensors x = random_arguments({1, 9, 2, 2, 4, 3, true, true}, 24);
  Tensors want;
  for (const Implementation implementation :
       {Implementation::kReference, Implementation::kChunked}) {
    const Tensors y = leaves(x, at::kDouble);
    const auto first =
        torch::autograd::grad({loss(y, implementation)}, {y.at("k"), y.at("log_gate")}, {},
                              c10::nullopt, /*create_graph=*/true);
    (first[0].sin().sum() + first[1].sin().sum()).backward();
    Tensors got;
    for (const auto& [name, tensor] : y) got["d" + name] = tensor.grad();
    if (want.empty()) want = got;
    expect_close(got, want, 1e-11);
  }
}

TEST(Gradients, ChangingASavedArgumentIsNoticed) {
  Tensors y = leaves(random_arguments({1, 6, 1, 1, 4, 4}, 25), at::kFloat);
  const at::Tensor k = y.at("k") * 1;
  const auto output = delta_product(y.at("q"), k, y.at("v"), y.at("beta"));
  k.detach().zero_();
  EXPECT_THROW(output.o.sum().backward(), c10::Error);
}

TEST(Gradients, NothingIsSavedWithoutThem) {
  const TestShape shape{2, 64, 2, 2, 16, 16, true, true};
  const Tensors y = leaves(random_arguments(shape, 26), at::kFloat);
  const auto measure = [&] {
    MeasureMemory memory;
    const auto output = call(y, Implementation::kFused);
    EXPECT_EQ(output.o.requires_grad(), output.state.requires_grad());
    return std::make_tuple(memory->live, memory->allocated, output.o.requires_grad());
  };
  const int64_t results = sizeof(float) * (2 * 64 * 2 * 16 + 2 * 2 * 16 * 16);
  {
    const at::NoGradGuard no_grad;
    EXPECT_EQ(measure(), std::make_tuple(results, results, false));
  }
  {
    const c10::InferenceMode inference;
    EXPECT_EQ(measure(), std::make_tuple(results, results, false));
  }
  const auto [live, allocated, requires_grad] = measure();
  EXPECT_TRUE(requires_grad);
  EXPECT_GT(live, results);
}

}  // namespace
}  // namespace dp
