// The kernel against the formula in double precision, on every SIMD target of this machine.
#include "kernels/cross_entropy.h"

#include <cstdint>

#include "kernels/test_arrays.h"

namespace dp::cross_entropy_test {
namespace {

constexpr int64_t kIgnore = -100;

struct Problem {
  Problem(size_t rows, size_t vocabulary, float deviation = 3)
      : rows(rows), vocabulary(vocabulary), values(normal_floats(rows * vocabulary, 1, deviation)) {
    std::mt19937 rng(2);
    for (size_t row = 0; row < rows; ++row) targets.push_back(int64_t(rng() % vocabulary));
  }

  void run(float gradient_scale, Executor& executor, bool predict = true) {
    const size_t stride = cross_entropy_stride(vocabulary);
    logits.assign(rows * stride, kNaN);  // the padding must not matter
    for (size_t row = 0; row < rows; ++row)
      std::copy_n(&values[row * vocabulary], vocabulary, &logits[row * stride]);
    losses.assign(rows, kNaN);
    predicted.assign(rows, -1);
    cross_entropy({rows, vocabulary, logits.data(), targets.data(), kIgnore, losses.data(),
                   predict ? predicted.data() : nullptr},
                  gradient_scale, executor);
  }

  /// The logits, or what is in their place, without padding.
  Floats result() const {
    const size_t stride = cross_entropy_stride(vocabulary);
    Floats out;
    for (size_t row = 0; row < rows; ++row)
      out.insert(out.end(), logits.begin() + std::ptrdiff_t(row * stride),
                 logits.begin() + std::ptrdiff_t(row * stride + vocabulary));
    return out;
  }

  size_t rows, vocabulary;
  Floats values;
  std::vector<int64_t> targets, predicted;
  Floats logits;
  Doubles losses;
};

void expect_matches_formula(const Problem& p, double scale) {
  Doubles gradient;
  for (size_t row = 0; row < p.rows; ++row) {
    const float* x = &p.values[row * p.vocabulary];
    const float* largest = std::max_element(x, x + p.vocabulary);
    EXPECT_EQ(p.predicted[row], largest - x) << "row " << row;
    double sum = 0;
    for (size_t i = 0; i < p.vocabulary; ++i) sum += std::exp(double(x[i]) - *largest);
    const bool counted = p.targets[row] != kIgnore;
    const double want = counted ? std::log(sum) + *largest - double(x[p.targets[row]]) : 0;
    EXPECT_NEAR(p.losses[row], want, 1e-6 * std::max(1.0, want)) << "row " << row;
    for (size_t i = 0; i < p.vocabulary; ++i) {
      const double share = std::exp(double(x[i]) - *largest) / sum;
      gradient.push_back(counted ? scale * (share - (int64_t(i) == p.targets[row])) : 0);
    }
  }
  EXPECT_LE(relative_error(p.result(), gradient), 1e-6);
}

using CrossEntropy = PointwiseOnEveryTarget;

TEST_P(CrossEntropy, LossPredictionAndGradientMatchTheFormula) {
  SerialExecutor serial;
  for (const size_t vocabulary : {1, 2, 6, 16, 17, 24, 60, 100, 1000, 33000})
    for (const float deviation : {0.1f, 3.0f, 40.0f}) {
      SCOPED_TRACE(testing::Message() << "vocabulary " << vocabulary << " spread " << deviation);
      Problem p(4, vocabulary, deviation);
      p.targets[2] = kIgnore;
      p.run(0.25f, serial);
      expect_matches_formula(p, 0.25);
    }
}

TEST_P(CrossEntropy, WithoutGradientTheLogitsStay) {
  SerialExecutor serial;
  Problem p(5, 37), with_gradient(5, 37);
  p.run(0, serial);
  with_gradient.run(1, serial);
  EXPECT_EQ(p.result(), p.values);
  EXPECT_EQ(p.losses, with_gradient.losses);
  EXPECT_EQ(p.predicted, with_gradient.predicted);
  p.run(0, serial, /*predict=*/false);
  EXPECT_EQ(p.losses, with_gradient.losses);
}

TEST_P(CrossEntropy, TheFirstOfEqualLogitsIsPredicted) {
  SerialExecutor serial;
  for (size_t first = 0; first < 40; ++first) {
    Problem p(1, 40);
    std::fill(p.values.begin(), p.values.end(), -1.0f);
    for (size_t i = first; i < 40; i += 3) p.values[i] = 2;
    p.run(0, serial);
    EXPECT_EQ(p.predicted[0], int64_t(first));
  }
}

TEST_P(CrossEntropy, LargeLogitsGiveFiniteResults) {
  SerialExecutor serial;
  Problem p(2, 20);
  std::fill(p.values.begin(), p.values.end(), -1e30f);
  p.values[3] = 3e38f, p.values[20 + 4] = -3e38f;
  p.targets = {3, 4};
  p.run(1, serial);
  EXPECT_EQ(p.losses[0], 0);
  EXPECT_NEAR(p.losses[1], 3e38, 1e32);
  for (const float g : p.result()) EXPECT_TRUE(std::isfinite(g));
}

// As torch has it: a class of -inf has probability 0; +inf, NaN and a row of -inf have no softmax.
TEST_P(CrossEntropy, InfinityAndNaN) {
  SerialExecutor serial;
  Problem p(4, 20);
  p.targets = {0, 1, 2, 3};
  p.values[5] = -INFINITY;
  p.values[20 + 5] = INFINITY;
  p.values[40 + 19] = kNaN;
  std::fill(p.values.begin() + 60, p.values.end(), -INFINITY);
  p.run(1, serial);
  EXPECT_TRUE(std::isfinite(p.losses[0]));
  EXPECT_EQ(p.result()[5], 0);
  for (size_t row = 1; row < 4; ++row) {
    EXPECT_TRUE(std::isnan(p.losses[row])) << row;
    EXPECT_TRUE(std::isnan(p.result()[row * 20])) << row;
  }
}

TEST_P(CrossEntropy, ResultsDoNotDependOnTheNumberOfThreads) {
  SerialExecutor serial;
  ThreadPool pool(3);
  for (const size_t vocabulary : {10, 5000}) {
    Problem one(3000 / vocabulary * 10 + 20, vocabulary);
    Problem many = one;
    one.run(1, serial);
    many.run(1, pool);
    EXPECT_EQ(one.losses, many.losses);
    EXPECT_EQ(one.result(), many.result());
    EXPECT_EQ(one.predicted, many.predicted);
  }
}

DP_INSTANTIATE_ON_EVERY_TARGET(CrossEntropy);

}  // namespace
}  // namespace dp::cross_entropy_test
