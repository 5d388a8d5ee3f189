// The kernel against the update written out in double precision, over several steps.
#include "kernels/adamw.h"

#include "kernels/test_arrays.h"

namespace dp::adamw_test {
namespace {

struct State {
  Doubles p, m, v;
};

void reference_step(const Doubles& gradient, const AdamWSettings& s, double weight_decay, int step,
                    State& state) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double g = s.gradient_scale * gradient[i];
    double &p = state.p[i], &m = state.m[i], &v = state.v[i];
    p -= s.learning_rate * weight_decay * p;
    m = s.beta1 * m + (1 - s.beta1) * g;
    v = s.beta2 * v + (1 - s.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(s.beta1, step));
    const double v_hat = v / (1 - std::pow(s.beta2, step));
    p -= s.learning_rate * m_hat / (std::sqrt(v_hat) + s.eps);
  }
}

// In units of the largest element or 1, of which order p, m and v are here: a single element of m may
// cancel to nearly nothing.
void expect_close(const Floats& got, const Doubles& want) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 1;
  for (const double x : want) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 1e-6 * largest) << "element " << i;
}

using AdamWKernel = PointwiseOnEveryTarget;

TEST_P(AdamWKernel, MatchesTheFormulaOverSeveralSteps) {
  SerialExecutor serial;
  const AdamWSettings settings{0.02, 0.9, 0.95, 1e-6, 0.7};
  for (const size_t size : {1, 7, 8, 29, 70001}) {
    Floats p = normal_floats(size, 1), m(size, 0.0f), v(size, 0.0f);
    State want{to_double(p), Doubles(size, 0.0), Doubles(size, 0.0)};
    for (int step = 1; step <= 6; ++step) {
      const Floats g = normal_floats(size, 10 + unsigned(step), step == 3 ? 1e-4f : 1.0f);
      adamw_step({{size, g.data(), p.data(), m.data(), v.data(), 0.3, step}}, settings, serial);
      reference_step(to_double(g), settings, 0.3, step, want);
      SCOPED_TRACE(testing::Message() << "size " << size << " step " << step);
      expect_close(p, want.p);
      expect_close(m, want.m);
      expect_close(v, want.v);
    }
  }
}

TEST_P(AdamWKernel, EachParameterHasItsOwnDecayAndStep) {
  ThreadPool pool(3);
  const AdamWSettings settings{0.05, 0.8, 0.99, 1e-8, 1};
  const Floats g0 = normal_floats(70000, 1), g1 = normal_floats(5, 2);
  Floats p0 = normal_floats(70000, 3), p1 = normal_floats(5, 4);
  Floats m0(70000, 0.0f), v0 = m0, m1(5, 0.5f), v1(5, 0.25f);
  State want0{to_double(p0), to_double(m0), to_double(v0)};
  State want1{to_double(p1), to_double(m1), to_double(v1)};
  adamw_step({{g0.size(), g0.data(), p0.data(), m0.data(), v0.data(), 0.0, 1},
              {g1.size(), g1.data(), p1.data(), m1.data(), v1.data(), 0.5, 9}},
             settings, pool);
  reference_step(to_double(g0), settings, 0.0, 1, want0);
  reference_step(to_double(g1), settings, 0.5, 9, want1);
  expect_close(p0, want0.p);
  expect_close(p1, want1.p);
  expect_close(v1, want1.v);
}

TEST_P(AdamWKernel, GradientsOfAnySizeKeepEverythingFinite) {
  SerialExecutor serial;
  const Floats g = {0, 1e-30f, 1e19f, 1e30f, -3e38f};
  Floats p(5, 1.0f), m(5, 0.0f), v(5, 0.0f);
  for (int step = 1; step <= 3; ++step)
    adamw_step({{5, g.data(), p.data(), m.data(), v.data(), 0.01, step}}, {}, serial);
  for (const Floats* x : {&p, &m, &v})
    for (const float value : *x) EXPECT_TRUE(std::isfinite(value));
  EXPECT_FLOAT_EQ(p[0], static_cast<float>(std::pow(1 - 1e-5, 3)));  // nothing but decay
}

TEST_P(AdamWKernel, SumOfSquaresIsExactToDoublePrecision) {
  SerialExecutor serial;
  ThreadPool pool(3);
  const Floats a = normal_floats(200003, 1, 1e15f), b = normal_floats(3, 2), c;
  const std::vector<ConstArray> arrays = {
      {a.data(), a.size()}, {b.data(), b.size()}, {c.data(), c.size()}};
  double want = 0;
  for (const Floats* x : {&a, &b})
    for (const float value : *x) want += double(value) * value;
  const double got = sum_of_squares(arrays, serial);
  EXPECT_NEAR(got, want, 1e-12 * want);
  EXPECT_EQ(got, sum_of_squares(arrays, pool));
  const Floats huge(10, 3e38f);
  EXPECT_NEAR(sum_of_squares({{huge.data(), huge.size()}}, serial), 10 * std::pow(double(3e38f), 2),
              1e65);
}

DP_INSTANTIATE_ON_EVERY_TARGET(AdamWKernel);

}  // namespace
}  // namespace dp::adamw_test
