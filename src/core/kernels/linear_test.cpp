// Products with weights of every format against double precision, on every SIMD target of this machine.
#include "kernels/linear.h"

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

  void expect_correct(const Floats& y, bool add) const {
    size_t stride = 0, column = 0;
    for (const RandomWeights& w : weights) stride += w.matrix().rows + 1;
    for (const RandomWeights& weight : weights) {
      const WeightMatrix& w = weight.matrix();
      for (size_t m = 0; m < M; ++m) {
        for (size_t o = 0; o < w.rows; ++o) {
          double sum = add ? 0.5 : 0, magnitude = sum;
          for (size_t i = 0; i < I; ++i) {
            const double product = double{x[m * I + i]} * weight_at(w, o, i);
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
    const Floats many = problem.run(serial), few = problem.run(serial, false, kFewRows);
    const size_t stride = many.size() / problem.M;
    const auto same = [](float a, float b) {
      return std::memcmp(&a, &b, sizeof(a)) == 0;  // NaN in the columns between
    };
    for (const int threads : {2, 3, 4}) {
      ThreadPool pool(threads);
      EXPECT_TRUE(std::ranges::equal(problem.run(pool), many, same));
      EXPECT_TRUE(std::ranges::equal(problem.run(pool, false, kFewRows), few, same));
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

DP_INSTANTIATE_ON_EVERY_TARGET(LinearOnEveryTarget);

}  // namespace
}  // namespace dp::linear_test
