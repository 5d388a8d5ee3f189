// Products with matrices of few weights against double precision, on every SIMD target of this machine.
#include "kernels/sparse_linear.h"

#include "kernels/test_arrays.h"
#include "kernels/test_weights.h"

namespace dp::sparse_linear_test {
namespace {

using SparseLinearOnEveryTarget = PointwiseOnEveryTarget;

// One weight in `every` is not 0, and no weight of every third row and fifth column.
Floats sparse_floats(size_t rows, size_t columns, unsigned every) {
  Floats values = normal_floats(rows * columns, every);
  std::mt19937 rng(every);
  for (size_t i = 0; i < values.size(); ++i)
    if (rng() % every != 0 || i / columns % 3 == 1 || i % columns % 5 == 2) values[i] = 0;
  return values;
}

TEST_P(SparseLinearOnEveryTarget, MatchesDoublePrecision) {
  SerialExecutor serial;
  ThreadPool pool(3);
  AlignedBuffer scratch;
  for (const auto& [O, I] : std::vector<std::pair<size_t, size_t>>{{1, 1}, {7, 3}, {16, 40}, {50, 33}, {130, 257}})
    for (const size_t M : {1, 2, 16, 31, 32, 33, 100})
      for (const bool add : {false, true}) {
        SCOPED_TRACE(testing::Message() << "O=" << O << " I=" << I << " M=" << M << " add=" << add);
        const Floats w = sparse_floats(O, I, 4), x = normal_floats(M * I, 3);
        const size_t upper = O / 2;  // as two matrices below one another
        std::vector<WeightMatrix> parts;
        for (const auto& [first, count] : {std::pair(size_t{0}, upper), {upper, O - upper}})
          if (count > 0) parts.push_back({WeightFormat::kFloat32, count, I, w.data() + first * I, nullptr});
        const SparseMatrix sparse(parts);
        EXPECT_EQ(sparse.rows, O);
        EXPECT_EQ(sparse.values.size(),
                  w.size() - static_cast<size_t>(std::ranges::count(w, 0.0f)));
        Floats y(M * O, add ? 0.5f : kNaN), again = y;
        sparse_linear(x.data(), M, sparse, y.data(), add, scratch, serial);
        sparse_linear(x.data(), M, sparse, again.data(), add, scratch, pool);
        EXPECT_EQ(y, again);
        for (size_t m = 0; m < M; ++m)
          for (size_t o = 0; o < O; ++o) {
            double sum = add ? 0.5 : 0, magnitude = sum;
            for (size_t i = 0; i < I; ++i) {
              const double product = static_cast<double>(w[o * I + i]) * x[m * I + i];
              sum += product, magnitude += std::abs(product);
            }
            ASSERT_NEAR(y[m * O + o], sum, 6e-7 * magnitude) << m << " " << o;
          }
      }
}

TEST(SparseMatrix, TakesBfloat16) {
  const RandomWeights weights(WeightFormat::kBFloat16, 5, 9);
  const SparseMatrix sparse(std::span(&weights.matrix(), 1));
  ASSERT_EQ(sparse.values.size(), 45u);
  for (size_t i = 0; i < 45; ++i) EXPECT_EQ(sparse.values[i], weight_at(weights.matrix(), i / 9, i % 9));
}

DP_INSTANTIATE_ON_EVERY_TARGET(SparseLinearOnEveryTarget);

}  // namespace
}  // namespace dp::sparse_linear_test
