// The judge itself is judged: by hand-computed cases and by finite differences.
#include "kernels/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace dp::reference_test {
namespace {

ReferenceInputs random_inputs(size_t T, size_t N, size_t K, size_t V) {
  std::mt19937 rng(7);
  std::normal_distribution<double> normal;
  const auto draw = [&](size_t n) {
    std::vector<double> x(n);
    for (double& value : x) value = normal(rng);
    return x;
  };
  ReferenceInputs in{
      T,           N,       K,          V, 0.3, draw(T * K), draw(T * N * K), draw(T * N * V),
      draw(T * N), draw(T), draw(K * V)};
  for (double& g : in.log_gate) g = -g * g;
  return in;
}

TEST(Reference, TwoReflectionsRotate) {
  // Mirrors at angles 0 and 45 degrees: together a rotation by 90 degrees, e1 -> e2.
  const double c = std::sqrt(0.5);
  const ReferenceInputs in{1, 2, 2, 1, 1.0, {0, 1}, {0, 1, c, -c}, {0, 0}, {2, 2}, {}, {1, 0}};
  const ReferenceOutputs out = reference_forward(in);
  EXPECT_NEAR(out.state[0], 0, 1e-15);
  EXPECT_NEAR(out.state[1], 1, 1e-15);
  EXPECT_NEAR(out.o[0], 1, 1e-15);
}

TEST(Reference, BetaOneWritesTheValue) {
  const ReferenceInputs in{1, 1, 2, 2, 0.5, {1, 0}, {1, 0}, {3, 4}, {1}, {}, {7, 8, 9, 10}};
  const ReferenceOutputs out = reference_forward(in);
  EXPECT_EQ(out.state, (std::vector<double>{3, 4, 9, 10}));
  EXPECT_EQ(out.o, (std::vector<double>{1.5, 2}));
}

TEST(Reference, GradientsMatchFiniteDifferences) {
  ReferenceInputs in = random_inputs(4, 2, 3, 2);
  const std::vector<double> d_o = random_inputs(8, 1, 1, 1).q,
                            d_state = random_inputs(6, 1, 1, 1).q;
  const auto loss = [&] {
    const ReferenceOutputs out = reference_forward(in);
    double sum = 0;
    for (size_t i = 0; i < d_o.size(); ++i) sum += out.o[i] * d_o[i];
    for (size_t i = 0; i < d_state.size(); ++i) sum += out.state[i] * d_state[i];
    return sum;
  };
  const ReferenceInputs d = reference_backward(in, d_o, d_state);
  const auto check = [&](std::vector<double>& x, const std::vector<double>& gradient,
                         const char* what) {
    ASSERT_EQ(x.size(), gradient.size()) << what;
    for (size_t i = 0; i < x.size(); ++i) {
      const double h = 1e-5, old = x[i];
      x[i] = old + h;
      const double up = loss();
      x[i] = old - h;
      const double down = loss();
      x[i] = old;
      EXPECT_NEAR(gradient[i], (up - down) / (2 * h), 1e-6 * (1 + std::abs(gradient[i])))
          << what << "[" << i << "]";
    }
  };
  check(in.q, d.q, "q");
  check(in.k, d.k, "k");
  check(in.v, d.v, "v");
  check(in.beta, d.beta, "beta");
  check(in.log_gate, d.log_gate, "log_gate");
  check(in.state, d.state, "state");
}

}  // namespace
}  // namespace dp::reference_test
