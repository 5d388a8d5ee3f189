// The optimiser that ranks share against the one that a process has alone.
#include "train/sharded_adamw.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "dist/test_ranks.h"
#include "train/adamw.h"

namespace dp {
namespace {

at::Tensor random_values(at::IntArrayRef sizes, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::kFloat);
}

// Parameters of several buckets, and one that is never used.
struct SmallModel {
  at::Tensor a = random_values({70, 31}, 1).requires_grad_(),
             b = random_values({5}, 2).requires_grad_(),
             c = random_values({31, 9}, 3).requires_grad_(),
             unused = random_values({3}, 4).requires_grad_();

  std::vector<ParameterGroup> groups() const { return {{{a, c}, 0.1}, {{b, unused}, 0.0}}; }
  std::vector<at::Tensor> all() const { return {a, c, b, unused}; }
  void backward(uint64_t seed) const {
    const at::Tensor x = random_values({4, 70}, seed);
    torch::autograd::backward({(x.matmul(a).tanh().matmul(c).square().sum() + (b * b).sum()) / 8},
                              {});
  }
};

constexpr int64_t kBucketBytes = 2048;
constexpr double kRate = 0.01;

// Gradients of all ranks' data, added up.
void step_alone(const SmallModel& model, AdamW& optimiser, int ranks, uint64_t step) {
  optimiser.zero_grad();
  for (int rank = 0; rank < ranks; ++rank) model.backward(100 * step + static_cast<uint64_t>(rank));
  optimiser.update(kRate, 0.5);
}

void step_together(const SmallModel& model, ShardedAdamW& optimiser, World& world, uint64_t step) {
  optimiser.zero_grad();
  optimiser.start_last_backward();
  model.backward(100 * step + static_cast<uint64_t>(world.rank()));
  double ranks = 1;
  optimiser.reduce_gradients({&ranks, 1});
  EXPECT_EQ(ranks, world.size());
  optimiser.update(kRate, 0.5);
}

void expect_close(const at::Tensor& got, const at::Tensor& want, const char* what) {
  EXPECT_TRUE(at::allclose(got, want, 1e-4, 1e-5)) << what;
}

TEST(ShardedAdamW, MatchesTheOptimiserOfOneProcess) {
  for (const int ranks : {2, 3}) {
    const SmallModel whole;
    AdamW alone(whole.groups(), {});
    for (uint64_t step = 1; step <= 6; ++step) step_alone(whole, alone, ranks, step);
    const auto ends = run_ranks(ranks, [&](World& world) {
      const SmallModel model;
      ShardedAdamW optimiser(model.groups(), {}, world, kBucketBytes);
      for (uint64_t step = 1; step <= 6; ++step) step_together(model, optimiser, world, step);
      for (size_t i = 0; i < model.all().size(); ++i)
        expect_close(model.all()[i], whole.all()[i], "weights");
      const std::vector<ParameterState> state = optimiser.gather_state();
      EXPECT_EQ(state.size(), world.rank() == 0 ? 4u : 0u);
      for (size_t i = 0; i < state.size(); ++i) {
        expect_close(state[i].exp_avg, alone.state()[i].exp_avg, "exp_avg");
        expect_close(state[i].exp_avg_sq, alone.state()[i].exp_avg_sq, "exp_avg_sq");
        EXPECT_EQ(state[i].steps, alone.state()[i].steps) << i;
      }
      // Padding aside, 1/N of two moments for each of 2457 weights.
      EXPECT_LT(static_cast<double>(optimiser.state_bytes_here()), 1.25 * 2 * 4 * 2457 / ranks);
    });
    for (const std::string& end : ends) EXPECT_EQ(end, "done");
  }
}

// `a` has its gradient last; that of `c` is on its way by then.
TEST(ShardedAdamW, SendsWhileTheBackwardPassRuns) {
  const auto ends = run_ranks(2, [&](World& world) {
    const SmallModel model;
    ShardedAdamW optimiser(model.groups(), {}, world, kBucketBytes);
    const int64_t before = world.bytes_sent();
    int64_t sent = 0;
    model.a.register_hook([&](const at::Tensor&) { sent = world.bytes_sent() - before; });
    step_together(model, optimiser, world, 1);
    EXPECT_GE(sent, model.c.numel() * 4 / 2);
    EXPECT_GT(world.bytes_sent() - before, sent);
  });
  for (const std::string& end : ends) EXPECT_EQ(end, "done");
}

TEST(ShardedAdamW, GoesOnWithTheStateOfOneProcess) {
  const SmallModel whole;
  AdamW alone(whole.groups(), {});
  for (uint64_t step = 1; step <= 3; ++step) step_alone(whole, alone, 2, step);
  const std::vector<ParameterState> saved = alone.state();
  std::vector<ParameterState> copies;
  for (const ParameterState& state : saved)
    copies.push_back({state.exp_avg.clone(), state.exp_avg_sq.clone(), state.steps});
  std::vector<at::Tensor> weights;
  for (const at::Tensor& x : whole.all()) weights.push_back(x.detach().clone());
  for (uint64_t step = 4; step <= 6; ++step) step_alone(whole, alone, 2, step);
  const auto ends = run_ranks(2, [&](World& world) {
    const SmallModel model;
    ShardedAdamW optimiser(model.groups(), {}, world, kBucketBytes);
    optimiser.load_state(copies);
    {
      const at::NoGradGuard no_grad;
      for (size_t i = 0; i < weights.size(); ++i) model.all()[i].copy_(weights[i]);
    }
    for (uint64_t step = 4; step <= 6; ++step) step_together(model, optimiser, world, step);
    for (size_t i = 0; i < weights.size(); ++i)
      expect_close(model.all()[i], whole.all()[i], "weights");
  });
  for (const std::string& end : ends) EXPECT_EQ(end, "done");
}

}  // namespace
}  // namespace dp
