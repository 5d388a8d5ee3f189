// The kernels against the formula in double precision.
#include "kernels/swiglu.h"

#include "kernels/test_arrays.h"

namespace dp::swiglu_test {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Problem {
  explicit Problem(size_t n)
      : gate(normal_floats(n, 1, 4)), up(normal_floats(n, 2)), dy(normal_floats(n, 3)) {}

  void run(Executor& executor) {
    const size_t n = gate.size();
    y.assign(n, kNaN), dgate.assign(n, kNaN), dup.assign(n, kNaN);
    swiglu_forward(gate.data(), up.data(), n, y.data(), executor);
    swiglu_backward(gate.data(), up.data(), dy.data(), n, dgate.data(), dup.data(), executor);
  }

  Floats gate, up, dy, y, dgate, dup;
};

using SwiGlu = PointwiseOnEveryTarget;

TEST_P(SwiGlu, ForwardAndGradientsMatchTheFormula) {
  SerialExecutor serial;
  for (const size_t n : {0, 1, 7, 8, 31, 40000}) {
    SCOPED_TRACE(n);
    Problem p(n);
    p.run(serial);
    Doubles y, dgate, dup;
    for (size_t i = 0; i < n; ++i) {
      const double g = p.gate[i], s = sigmoid(g);
      y.push_back(g * s * p.up[i]);
      dgate.push_back(p.dy[i] * p.up[i] * (s + g * s * (1 - s)));
      dup.push_back(p.dy[i] * g * s);
    }
    EXPECT_LE(relative_error(p.y, y), 1e-6);
    EXPECT_LE(relative_error(p.dgate, dgate), 1e-6);
    EXPECT_LE(relative_error(p.dup, dup), 1e-6);
  }
}

TEST_P(SwiGlu, FiniteForGatesOfAnySize) {
  SerialExecutor serial;
  Problem p(16);
  const float gates[] = {0, 88, -88, 104, -104, 1e4f, -1e4f, 1e30f, -1e30f};
  std::copy(std::begin(gates), std::end(gates), p.gate.begin());
  p.run(serial);
  for (const Floats* result : {&p.y, &p.dgate, &p.dup})
    for (const float value : *result) EXPECT_TRUE(std::isfinite(value));
  EXPECT_EQ(p.y[7], 1e30f * p.up[7]);
  EXPECT_EQ(p.y[8], 0);
  EXPECT_EQ(p.dgate[8], 0);
}

TEST_P(SwiGlu, ResultsDoNotDependOnTheNumberOfThreads) {
  SerialExecutor serial;
  Problem one(100003);
  one.run(serial);
  ThreadPool pool(3);
  Problem many(100003);
  many.run(pool);
  EXPECT_EQ(one.y, many.y);
  EXPECT_EQ(one.dgate, many.dgate);
  EXPECT_EQ(one.dup, many.dup);
}

DP_INSTANTIATE_ON_EVERY_TARGET(SwiGlu);

}  // namespace
}  // namespace dp::swiglu_test
