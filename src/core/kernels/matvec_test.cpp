// Products with a matrix against double precision, on every SIMD target of this machine.
#include "kernels/matvec.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/matmul.h"

namespace dp::matvec_test {
namespace {

using Floats = std::vector<float>;

uint16_t upper_half(float x) {
  uint32_t word;
  std::memcpy(&word, &x, sizeof(word));
  return static_cast<uint16_t>(word >> 16);
}

float from_upper_half(uint16_t half) {
  const uint32_t word = uint32_t{half} << 16;
  float x;
  std::memcpy(&x, &word, sizeof(x));
  return x;
}

struct Problem {
  Problem(size_t M, size_t I, size_t O, unsigned seed = 1) : M(M), I(I), O(O) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < M * I; ++i) x.push_back(normal(rng));
    weight.push_back(0);  // what follows is aligned to one element only
    for (size_t i = 0; i < O * I; ++i) {
      halves.push_back(upper_half(normal(rng)));
      weight.push_back(normal(rng));
    }
    halves.insert(halves.begin(), 0);
  }

  Floats run(bool bfloat16, Executor& executor) const {
    Floats y(M * O, std::numeric_limits<float>::quiet_NaN());
    if (bfloat16)
      matvec(x.data(), halves.data() + 1, M, I, O, y.data(), executor);
    else
      matvec(x.data(), weight.data() + 1, M, I, O, y.data(), executor);
    return y;
  }

  Floats run_matmul(Executor& executor) const {
    Floats y(M * O, std::numeric_limits<float>::quiet_NaN());
    matmul(x.data(), weight.data() + 1, M, I, O, y.data(), executor);
    return y;
  }

  void expect_correct(const Floats& y, bool bfloat16) const {
    for (size_t m = 0; m < M; ++m) {
      for (size_t o = 0; o < O; ++o) {
        double sum = 0, magnitude = 0;
        for (size_t i = 0; i < I; ++i) {
          const size_t at = 1 + o * I + i;
          const double product =
              double{x[m * I + i]} * (bfloat16 ? from_upper_half(halves[at]) : weight[at]);
          sum += product;
          magnitude += std::abs(product);
        }
        ASSERT_NEAR(y[m * O + o], sum, 5e-7 * magnitude) << "row " << m << " output " << o;
      }
    }
  }

  size_t M, I, O;
  Floats x, weight;
  std::vector<uint16_t> halves;
};

class MatvecOnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(MatvecOnEveryTarget, MatchesDoublePrecision) {
  SerialExecutor serial;
  for (const bool bfloat16 : {false, true})
    for (const size_t M : {1, 2, 3, 4, 5, 6, 7, 8, 9, 19})
      for (const auto& [I, O] : std::vector<std::pair<size_t, size_t>>{
               {1, 1}, {3, 5}, {31, 2}, {32, 9}, {100, 7}, {256, 33}, {1000, 3}}) {
        SCOPED_TRACE(testing::Message() << (bfloat16 ? "bfloat16" : "float32") << " M=" << M
                                        << " I=" << I << " O=" << O);
        const Problem problem(M, I, O);
        problem.expect_correct(problem.run(bfloat16, serial), bfloat16);
      }
}

// Several tasks; neither the threads nor the other rows of x change a bit.
TEST_P(MatvecOnEveryTarget, RowsDoNotDependOnThreadsOrOtherRows) {
  SerialExecutor serial;
  ThreadPool three(3);
  for (const bool bfloat16 : {false, true}) {
    const Problem many(8, 300, 1003);
    const Floats y = many.run(bfloat16, serial);
    many.expect_correct(y, bfloat16);
    EXPECT_EQ(many.run(bfloat16, three), y);
    for (const size_t M : {1, 2, 3, 4, 5, 6, 7}) {
      Problem few = many;
      few.M = M;
      EXPECT_EQ(few.run(bfloat16, serial), Floats(y.begin(), y.begin() + ptrdiff_t(M * few.O)));
    }
  }
}

TEST_P(MatvecOnEveryTarget, MatmulMatchesDoublePrecision) {
  SerialExecutor serial;
  ThreadPool three(3);
  for (const size_t M : {1, 15, 16, 17, 40, 64})
    for (const auto& [I, O] : std::vector<std::pair<size_t, size_t>>{
             {1, 1}, {3, 5}, {100, 7}, {256, 33}, {257, 12}, {600, 205}}) {
      SCOPED_TRACE(testing::Message() << "M=" << M << " I=" << I << " O=" << O);
      const Problem problem(M, I, O);
      const Floats y = problem.run_matmul(serial);
      problem.expect_correct(y, false);
      EXPECT_EQ(problem.run_matmul(three), y);
      Problem one = problem;
      one.M = 1;  // neither the threads nor the other rows of x change a bit
      EXPECT_EQ(one.run_matmul(serial), Floats(y.begin(), y.begin() + ptrdiff_t(O)));
    }
}

INSTANTIATE_TEST_SUITE_P(, MatvecOnEveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) {
                           return std::string(hwy::TargetName(target.param));
                         });

}  // namespace
}  // namespace dp::matvec_test
