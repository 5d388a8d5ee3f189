// Products with weights of every format against double precision, on every SIMD target of this machine.
#include "kernels/linear.h"

#include "kernels/activation_rounding.h"
#include "kernels/test_arrays.h"
#include "kernels/test_weights.h"

namespace dp::linear_test {
namespace {

struct Problem {
  Problem(WeightFormat format, size_t M, size_t I, std::vector<size_t> sizes) : M(M), I(I) {
    x = normal_floats(M * I, 3);
    unsigned seed = 1;
    for (const size_t O : sizes) weights.emplace_back(format, O, I, seed++);
  }

  // The matrices' outputs side by side, with a column between them that nobody may touch.
  Floats run(Executor& executor, bool add = false, size_t rows = 0) const {
    if (rows == 0) rows = M;
    size_t stride = 0;
    for (const RandomWeights& w : weights) stride += w.matrix().rows + 1;
    Floats y(rows * stride, add ? 0.5f : kNaN);
    std::vector<LinearOutput> outputs;
    size_t column = 0;
    for (const RandomWeights& w : weights) {
      outputs.push_back({w.matrix(), y.data() + column, stride, add});
      column += w.matrix().rows + 1;
    }
    LinearScratch scratch;
    linear(x.data(), rows, I, outputs, scratch, executor);
    return y;
  }

  // As they count beside weights of that format.
  std::vector<double> activations(WeightFormat format) const {
    std::vector<double> all(x.begin(), x.end());
    if (format != WeightFormat::kInt8 && format != WeightFormat::kInt4) return all;
    for (size_t m = 0; m < M; ++m)
      for (size_t begin = 0; begin < I; begin += kWeightGroup) {
        const size_t count = std::min(kWeightGroup, I - begin);
        int16_t values[kWeightGroup];
        const double scale = round_group(&x[m * I + begin], count, values);
        for (size_t i = 0; i < count; ++i) all[m * I + begin + i] = scale * values[i];
      }
    return all;
  }

  void expect_correct(const Floats& y, bool add) const {
    size_t stride = 0, column = 0;
    for (const RandomWeights& w : weights) stride += w.matrix().rows + 1;
    for (const RandomWeights& weight : weights) {
      const WeightMatrix& w = weight.matrix();
      const std::vector<double> x = activations(w.format);
      for (size_t m = 0; m < M; ++m) {
        for (size_t o = 0; o < w.rows; ++o) {
          double sum = add ? 0.5 : 0, magnitude = sum;
          for (size_t i = 0; i < I; ++i) {
            const double product = x[m * I + i] * weight_at(w, o, i);
            sum += product;
            magnitude += std::abs(product);
          }
          ASSERT_NEAR(y[m * stride + column + o], sum, 6e-7 * magnitude)
              << "row " << m << " output " << o;
        }
        const float between = y[m * stride + column + w.rows];
        ASSERT_TRUE(add ? between == 0.5f : std::isnan(between));
      }
      column += w.rows + 1;
    }
  }

  size_t M, I;
  Floats x;
  std::vector<RandomWeights> weights;
};

using LinearOnEveryTarget = PointwiseOnEveryTarget;

TEST_P(LinearOnEveryTarget, MatchesDoublePrecision) {
  SerialExecutor serial;
  for (const WeightFormat format : kEveryFormat)
    for (const size_t M : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 50, 64})
      for (const auto& [I, sizes] :
           std::vector<std::pair<size_t, std::vector<size_t>>>{{1, {1}},
                                                               {3, {5, 2}},
                                                               {32, {9}},
                                                               {100, {7, 1, 13}},
                                                               {257, {12}},
                                                               {300, {33}},
                                                               {513, {4}}}) {
        SCOPED_TRACE(testing::Message() << format_name(format) << " M=" << M << " I=" << I);
        const Problem problem(format, M, I, sizes);
        problem.expect_correct(problem.run(serial), false);
        problem.expect_correct(problem.run(serial, true), true);
      }
}

TEST_P(LinearOnEveryTarget, BitsDependOnNeitherThreadsNorOtherRows) {
  SerialExecutor serial;
  for (const WeightFormat format : kEveryFormat) {
    const Problem problem(format, 40, 300, {205, 31, 1003});
    const Floats many = problem.run(serial), few = problem.run(serial, false, kSmallBatch);
    const size_t stride = many.size() / problem.M;
    const auto same = [](float a, float b) {
      return std::memcmp(&a, &b, sizeof(a)) == 0;  // NaN in the columns between
    };
    for (const int threads : {2, 3, 4}) {
      ThreadPool pool(threads);
      EXPECT_TRUE(std::ranges::equal(problem.run(pool), many, same));
      EXPECT_TRUE(std::ranges::equal(problem.run(pool, false, kSmallBatch), few, same));
    }
    for (const size_t M : {1, 2, 3, 5, 7}) {
      const Floats y = problem.run(serial, false, M);
      EXPECT_TRUE(std::ranges::equal(y, std::span(few).first(M * stride), same)) << M;
    }
    for (const size_t M : {9, 16, 17, 39}) {
      const Floats y = problem.run(serial, false, M);
      EXPECT_TRUE(std::ranges::equal(y, std::span(many).first(M * stride), same)) << M;
    }
  }
}

TEST_P(LinearOnEveryTarget, RowsAreWidenedExactly) {
  for (const WeightFormat format : kEveryFormat)
    for (const size_t I : {1, 31, 64, 300}) {
      const RandomWeights weights(format, 3, I);
      Floats row(I, kNaN);
      for (size_t o = 0; o < 3; ++o) {
        widen_row(weights.matrix(), o, row.data());
        for (size_t i = 0; i < I; ++i)
          ASSERT_EQ(row[i], weight_at(weights.matrix(), o, i)) << format_name(format) << " " << i;
      }
    }
}

// A group keeps what is not small beside its largest number, and numbers of few bits exactly.
TEST(ActivationRounding, LosesLittle) {
  const Floats x = normal_floats(100 * kWeightGroup, 5);
  int16_t values[kWeightGroup];
  for (size_t begin = 0; begin < x.size(); begin += kWeightGroup) {
    const double scale = round_group(&x[begin], kWeightGroup, values);
    double largest = 0;
    for (size_t i = 0; i < kWeightGroup; ++i) largest = std::max<double>(largest, std::abs(x[begin + i]));
    for (size_t i = 0; i < kWeightGroup; ++i)
      ASSERT_LE(std::abs(scale * values[i] - x[begin + i]), largest / (1 << 15));
  }
  const float simple[] = {1, -1, 0.5f, 0, 0.125f, -0.75f, 127, -100.0625f};
  const double scale = round_group(simple, std::size(simple), values);
  for (size_t i = 0; i < std::size(simple); ++i) EXPECT_EQ(scale * values[i], simple[i]);
}

TEST_P(LinearOnEveryTarget, ActivationsThatAreNotFiniteOrTinyAreNotHidden) {
  SerialExecutor serial;
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4})
    for (const size_t M : {1, 12})
      for (const float bad : {kNaN, HUGE_VALF, -HUGE_VALF}) {
        Problem problem(format, M, 100, {5});
        problem.x[40] = bad;
        const Floats y = problem.run(serial);
        for (size_t o = 0; o < 5; ++o) {
          EXPECT_FALSE(std::isfinite(y[o])) << format_name(format) << " M=" << M;
          EXPECT_TRUE(M == 1 || std::isfinite(y[6 + o]));  // another row
        }
        problem.x.assign(problem.x.size(), 1e-40f);
        EXPECT_EQ(problem.run(serial)[0], 0);
      }
}

DP_INSTANTIATE_ON_EVERY_TARGET(LinearOnEveryTarget);

}  // namespace
}  // namespace dp::linear_test
