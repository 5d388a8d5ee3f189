// The optimiser against the update written out in double precision.
#include "train/adamw.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/test_input_error.h"

namespace dp {
namespace {

at::Tensor normal(at::IntArrayRef sizes, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::kFloat);
}

at::Tensor parameter(at::IntArrayRef sizes, uint64_t seed) {
  return normal(sizes, seed).requires_grad_();
}

// One parameter in double precision.
struct Reference {
  explicit Reference(const at::Tensor& x)
      : p(x.detach().to(at::kDouble)), m(at::zeros_like(p)), v(at::zeros_like(p)) {}

  void step(const at::Tensor& gradient, const AdamWOptions& o, double scale = 1) {
    ++steps;
    const at::Tensor g = gradient.to(at::kDouble) * scale;
    p = p * (1 - o.learning_rate * o.weight_decay);
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const at::Tensor m_hat = m / (1 - std::pow(o.beta1, steps));
    const at::Tensor v_hat = v / (1 - std::pow(o.beta2, steps));
    p = p - o.learning_rate * m_hat / (v_hat.sqrt() + o.eps);
  }

  at::Tensor p, m, v;
  int steps = 0;
};

double largest_difference(const at::Tensor& got, const at::Tensor& want) {
  return (got.detach().to(at::kDouble) - want).abs().max().item<double>();
}

// The largest parameter has several blocks; the second group decays at its own rate, the third has a
// gradient at every other step only.
TEST(AdamW, MatchesTheFormulaOverSeveralSteps) {
  AdamWOptions options{0.01, 0.8, 0.95, 1e-7, 0.1}, undecayed = options;
  undecayed.weight_decay = 0;
  const at::Tensor a = parameter({300, 701}, 1), b = parameter({5}, 2), c = parameter({7, 3}, 3);
  AdamW optimizer({{{a}, {}}, {{b}, 0.0}, {{c}, {}}}, options);
  Reference want_a(a), want_b(b), want_c(c);
  for (int step = 1; step <= 8; ++step) {
    options.learning_rate = undecayed.learning_rate = 0.01 / step;
    const double scale = step % 3 == 0 ? 0.25 : 1;
    optimizer.zero_grad();
    a.mutable_grad() = normal({300, 701}, 10 + step);
    b.mutable_grad() = normal({5}, 20 + step);
    want_a.step(a.grad(), options, scale);
    want_b.step(b.grad(), undecayed, scale);
    if (step % 2) {
      c.mutable_grad() = normal({3, 7}, 30 + step).t();  // as a transposed use leaves it
      want_c.step(c.grad(), options, scale);
    }
    optimizer.update(options.learning_rate, scale);
    EXPECT_LE(largest_difference(a, want_a.p), 2e-6) << "step " << step;
    EXPECT_LE(largest_difference(b, want_b.p), 2e-6) << "step " << step;
    EXPECT_LE(largest_difference(c, want_c.p), 2e-6) << "step " << step;
  }
  EXPECT_LE(largest_difference(optimizer.state()[0].exp_avg, want_a.m), 1e-6);
  EXPECT_LE(largest_difference(optimizer.state()[0].exp_avg_sq, want_a.v), 1e-6);
  EXPECT_EQ(optimizer.state()[2].steps, 4);
  EXPECT_EQ(optimizer.step_count(), 8);
}

TEST(AdamW, ContinuesFromALoadedState) {
  const at::Tensor a = parameter({50}, 1), b = a.detach().clone().requires_grad_();
  AdamW straight({{{a}, {}}}, {});
  for (int step = 0; step < 4; ++step) {
    a.mutable_grad() = normal({50}, step);
    straight.step();
  }
  std::vector<ParameterState> saved;
  {
    AdamW first({{{b}, {}}}, {});
    for (int step = 0; step < 2; ++step) {
      b.mutable_grad() = normal({50}, step);
      first.step();
    }
    saved = first.state();
  }
  AdamW second({{{b}, {}}}, {});
  second.load_state(saved);
  for (int step = 2; step < 4; ++step) {
    b.mutable_grad() = normal({50}, step);
    second.step();
  }
  EXPECT_TRUE(a.equal(b));
  EXPECT_EQ(second.step_count(), 4);
}

TEST(AdamW, ZeroGradForgets) {
  const at::Tensor a = parameter({3}, 1);
  AdamW optimizer({{{a}, {}}}, {});
  a.mutable_grad() = at::ones({3});
  optimizer.zero_grad();
  EXPECT_FALSE(a.grad().defined());
  const at::Tensor before = a.detach().clone();
  optimizer.step();  // nothing to do, not even decay
  EXPECT_TRUE(a.equal(before));
}

// A graph made before the step must not be differentiated with the values after it.
TEST(AdamW, TheStepIsNoticedByOlderGraphs) {
  const at::Tensor a = parameter({3}, 1);
  const at::Tensor loss = (a * a).sum();
  AdamW optimizer({{{a}, {}}}, {});
  a.mutable_grad() = at::ones({3});
  optimizer.step();
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(AdamW, GradientNorm) {
  const at::Tensor a = parameter({300, 500}, 1), b = parameter({2}, 2), c = parameter({2}, 3);
  EXPECT_EQ(gradient_norm({a, b, c}), 0);
  a.mutable_grad() = normal({500, 300}, 4).t();
  b.mutable_grad() = at::full({2}, 1e30);
  const double squares =
      a.grad().to(at::kDouble).square().sum().item<double>() + 2 * std::pow(double(1e30f), 2);
  EXPECT_NEAR(gradient_norm({a, b, c}), std::sqrt(squares), 1e-12 * std::sqrt(squares));
  b.mutable_grad().reset();
  EXPECT_NEAR(gradient_norm({a, b, c}),
              std::sqrt(a.grad().to(at::kDouble).square().sum().item<double>()), 1e-9);
}

TEST(AdamW, Mistakes) {
  const at::Tensor a = parameter({2, 3}, 1);
  const auto make = [](const at::Tensor& x, AdamWOptions options = {}) {
    return input_error([&] { AdamW({{{x}, {}}}, options); });
  };
  EXPECT_EQ(make(a), "no error");
  EXPECT_EQ(make(a.detach().to(at::kDouble)),
            "AdamW: parameter 0 must be a contiguous float32 leaf on cpu, got CPUDoubleType of "
            "shape [2, 3].");
  EXPECT_EQ(make(a.detach().t()),
            "AdamW: parameter 0 must be a contiguous float32 leaf on cpu, got CPUFloatType of "
            "shape [3, 2].");
  EXPECT_EQ(make(at::Tensor()), "AdamW: parameter 0 is an undefined tensor.");
  EXPECT_EQ(input_error([&] {
              AdamW({{{a}, {}}, {{a}, 0.0}}, {});
            }),
            "AdamW: parameter 1 of shape [2, 3] is given twice.");
  EXPECT_EQ(make(a, {-1}), "AdamW: learning_rate must be at least 0, got -1.");
  EXPECT_EQ(make(a, {1e-3, 1}), "AdamW: beta1 must be in [0, 1), got 1.");
  EXPECT_EQ(make(a, {1e-3, 0.9, 2}), "AdamW: beta2 must be in [0, 1), got 2.");
  EXPECT_EQ(make(a, {1e-3, 0.9, 0.99, 0}), "AdamW: eps must be above 0, got 0.");
  AdamW optimizer({{{a}, {}}}, {});
  EXPECT_EQ(input_error([&] { optimizer.step(NAN); }),
            "AdamW: learning_rate must be at least 0, got nan.");
  EXPECT_EQ(input_error([&] { optimizer.load_state({}); }),
            "AdamW: a state must have 1 entries, one per parameter, got 0.");
  EXPECT_EQ(input_error([&] {
              optimizer.load_state({{at::zeros({2, 3}), at::zeros({3, 2}), 1}});
            }),
            "AdamW: the state of parameter 0 must be dense float32 on cpu of shape [2, 3], got "
            "CPUFloatType of shape [3, 2].");
}

}  // namespace
}  // namespace dp
