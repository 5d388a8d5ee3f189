// The kernels against the formula in double precision, and gradients against its finite differences.
#include "kernels/rms_norm.h"

#include "kernels/test_arrays.h"

namespace dp::rms_norm_test {
namespace {

constexpr double kEps = 1e-5;

double silu(double x) { return x / (1 + std::exp(-x)); }

struct Problem {
  Problem(size_t rows, size_t D, bool gated, float deviation = 1)
      : rows(rows),
        D(D),
        x(normal_floats(rows * D, 1, deviation)),
        weight(normal_floats(D, 2)),
        gate(gated ? normal_floats(rows * D, 3, 3) : Floats()),
        dy(normal_floats(rows * D, 4)),
        y(rows * D, kNaN),
        dx(rows * D, kNaN),
        dweight(D, kNaN),
        dgate(gate.size(), kNaN) {}

  void run(Executor& executor) {
    const RmsNormInputs inputs{
        rows, D, kEps, x.data(), weight.data(), gated() ? gate.data() : nullptr};
    rms_norm_forward(inputs, y.data(), executor);
    rms_norm_backward(
        inputs, {dy.data(), dx.data(), dweight.data(), gated() ? dgate.data() : nullptr}, executor);
  }

  bool gated() const { return !gate.empty(); }

  size_t rows, D;
  Floats x, weight, gate, dy;
  Floats y, dx, dweight, dgate;
};

// One row of the formula; gate may be empty.
Doubles reference_row(const Doubles& x, const Doubles& weight, const Doubles& gate) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double root = std::sqrt(squares / static_cast<double>(x.size()) + kEps);
  Doubles y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    y[i] = x[i] / root * weight[i] * (gate.empty() ? 1 : silu(gate[i]));
  return y;
}

Doubles matrix_row(const Floats& matrix, size_t row, size_t D) {
  if (matrix.empty()) return {};
  const auto begin = matrix.begin() + static_cast<std::ptrdiff_t>(row * D);
  return Doubles(begin, begin + static_cast<std::ptrdiff_t>(D));
}

struct Reference {
  explicit Reference(const Problem& p) : dweight(p.D, 0.0) {
    const Doubles weight = to_double(p.weight);
    for (size_t row = 0; row < p.rows; ++row) {
      Doubles x = matrix_row(p.x, row, p.D), gate = matrix_row(p.gate, row, p.D), w = weight;
      const Doubles dy = matrix_row(p.dy, row, p.D);
      const Doubles out = reference_row(x, w, gate);
      y.insert(y.end(), out.begin(), out.end());
      // d sum(y dy) / d value
      const auto derivative = [&](double& value) {
        const double old = value, step = 1e-5 * std::max(1.0, std::abs(old));
        value = old + step;
        const Doubles above = reference_row(x, w, gate);
        value = old - step;
        const Doubles below = reference_row(x, w, gate);
        value = old;
        double sum = 0;
        for (size_t i = 0; i < p.D; ++i) sum += (above[i] - below[i]) * dy[i];
        return sum / (2 * step);
      };
      for (double& value : x) dx.push_back(derivative(value));
      for (double& value : gate) dgate.push_back(derivative(value));
      for (size_t i = 0; i < p.D; ++i) dweight[i] += derivative(w[i]);
    }
  }
  Doubles y, dx, dweight, dgate;
};

using RmsNorm = PointwiseOnEveryTarget;

TEST_P(RmsNorm, ForwardAndGradientsMatchTheFormula) {
  SerialExecutor serial;
  for (const size_t D : {1, 2, 7, 8, 17, 32, 45, 64, 131})
    for (const size_t rows : {1, 5})
      for (const bool gated : {false, true}) {
        SCOPED_TRACE(testing::Message() << "D=" << D << " rows=" << rows << " gated=" << gated);
        Problem p(rows, D, gated);
        p.run(serial);
        const Reference want(p);
        EXPECT_LE(relative_error(p.y, want.y), 1e-6);
        EXPECT_LE(relative_error(p.dweight, want.dweight), 2e-6);
        EXPECT_LE(relative_error(p.dgate, want.dgate), 2e-6);
        if (D == 1) continue;  // dx = eps r^3 t weight there: all cancellation
        EXPECT_LE(relative_error(p.dx, want.dx), 2e-6);
      }
}

// Many rows: dweight comes from several partial sums. The formula is linear in weight.
TEST_P(RmsNorm, WeightGradientSumsOverManyRows) {
  SerialExecutor serial;
  for (const auto& [rows, D] : {std::pair<size_t, size_t>{5000, 24}, {700, 520}}) {
    Problem p(rows, D, false);
    p.run(serial);
    Doubles want(D, 0.0);
    const Doubles ones(D, 1.0);
    for (size_t row = 0; row < rows; ++row) {
      const Doubles n = reference_row(matrix_row(p.x, row, D), ones, {});
      for (size_t i = 0; i < D; ++i) want[i] += n[i] * p.dy[row * D + i];
    }
    EXPECT_LE(relative_error(p.dweight, want), 2e-6) << rows << " rows";
  }
}

TEST_P(RmsNorm, ResultsDoNotDependOnTheNumberOfThreads) {
  SerialExecutor serial;
  for (const auto& [rows, D] : {std::pair<size_t, size_t>{3000, 33}, {200, 512}, {70, 3000}})
    for (const bool gated : {false, true}) {
      Problem one(rows, D, gated);
      one.run(serial);
      for (const int threads : {2, 5}) {
        ThreadPool pool(threads);
        Problem many(rows, D, gated);
        many.run(pool);
        EXPECT_EQ(one.y, many.y);
        EXPECT_EQ(one.dx, many.dx);
        EXPECT_EQ(one.dweight, many.dweight);
        EXPECT_EQ(one.dgate, many.dgate);
      }
    }
}

// Squares overflow float32 from 1.8e19 on and vanish below 1e-23; the results must not.
TEST_P(RmsNorm, RowsOfAnyMagnitude) {
  SerialExecutor serial;
  for (const bool gated : {false, true}) {
    for (const float deviation : {0.0f, 1e-30f, 1e20f, 1e37f}) {
      Problem p(3, 20, gated, deviation);
      p.run(serial);
      Doubles want;
      for (size_t row = 0; row < p.rows; ++row) {
        const Doubles y =
            reference_row(matrix_row(p.x, row, p.D), to_double(p.weight), matrix_row(p.gate, row, p.D));
        want.insert(want.end(), y.begin(), y.end());
      }
      EXPECT_LE(relative_error(p.y, want), 1e-6) << deviation;
      for (const Floats* gradient : {&p.dx, &p.dweight, &p.dgate})
        for (const float g : *gradient) EXPECT_TRUE(std::isfinite(g)) << deviation;
    }
  }
}

TEST_P(RmsNorm, FiniteForGatesOfAnySize) {
  SerialExecutor serial;
  Problem p(1, 16, true);
  const float gates[] = {0, 88, -88, 104, -104, 1e4f, -1e4f, 1e30f, -1e30f};
  std::copy(std::begin(gates), std::end(gates), p.gate.begin());
  p.run(serial);
  for (const Floats* result : {&p.y, &p.dx, &p.dweight, &p.dgate})
    for (const float value : *result) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(RmsNorm, NaNStaysInItsRow) {
  SerialExecutor serial;
  Problem clean(3, 19, false), bad(3, 19, false);
  clean.run(serial);
  bad.x[19 + 18] = kNaN;
  bad.run(serial);
  for (size_t i = 0; i < bad.y.size(); ++i) {
    if (i / 19 == 1)
      EXPECT_TRUE(std::isnan(bad.y[i]) && std::isnan(bad.dx[i])) << i;
    else
      EXPECT_TRUE(bad.y[i] == clean.y[i] && bad.dx[i] == clean.dx[i]) << i;
  }
}

DP_INSTANTIATE_ON_EVERY_TARGET(RmsNorm);

TEST(RmsNormShapes, NoRowsGiveAZeroWeightGradient) {
  SerialExecutor serial;
  Problem p(0, 5, false);
  p.run(serial);
  EXPECT_EQ(p.dweight, Floats(5, 0.0f));
}

}  // namespace
}  // namespace dp::rms_norm_test
