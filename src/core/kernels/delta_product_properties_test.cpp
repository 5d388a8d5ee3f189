// What holds of the recurrence whatever the arithmetic: what depends on what, memory, gates, norms.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/delta_product.h"
#include "kernels/test_delta_product.h"

namespace dp::delta_product_test {
namespace {

// What happens at a token reaches that token and later ones, and only the columns it can.
TEST(DeltaProduct, NaNReachesOnlyWhatDependsOnIt) {
  SerialExecutor serial;
  const Shape shape{{50}, 2, 1, 20, 24};
  Problem clean(shape);
  clean.forward(serial);
  for (const size_t token : {0, 13, 31, 49}) {
    Problem value(shape), key(shape), query(shape);
    value.v[(token * 2 + 1) * 24 + 5] = kNaN;
    key.k[token * 2 * 20 + 3] = kNaN;
    query.q[token * 20] = INFINITY;
    value.forward(serial);
    key.forward(serial);
    query.forward(serial);
    for (size_t t = 0; t < 50; ++t)
      for (size_t c = 0; c < 24; ++c) {
        const size_t i = t * 24 + c;
        SCOPED_TRACE(testing::Message()
                     << "NaN at token " << token << ", output " << t << ", column " << c);
        if (t < token || c != 5) {
          EXPECT_EQ(value.o[i], clean.o[i]);
        }
        if (t >= token && c == 5) {
          EXPECT_TRUE(std::isnan(value.o[i]));
        }
        if (t < token) {
          EXPECT_EQ(key.o[i], clean.o[i]);
        }
        if (t >= token) {
          EXPECT_TRUE(std::isnan(key.o[i]));
        }
        if (t != token) {
          EXPECT_EQ(query.o[i], clean.o[i]);
        }
        if (t == token) {
          EXPECT_FALSE(std::isfinite(query.o[i]));
        }
      }
  }
}

// Training on a long sequence: what is kept between the passes takes no more memory than all inputs, outputs and gradients
// together, and a tenth of a state per token.
TEST(DeltaProduct, SavedMemoryIsBounded) {
  const int64_t offsets[] = {0, 16384};
  DeltaProductInputs in;
  in.num_sequences = 1;
  in.offsets = offsets;
  in.N = 2, in.H = 8, in.K = 128, in.V = 128;
  const size_t steps = 16384 * in.N * in.H, tokens = 16384 * in.H;
  const size_t tensors = 2 * (tokens * (in.K + in.V) + steps * (in.K + in.V + 1));
  EXPECT_LE(delta_product_saved_size(in), tensors);
  EXPECT_LE(delta_product_saved_size(in), tokens * in.K * in.V / 10);
}

// The bound holds for any lengths, and exceeds the need by at most the last chunk of each sequence.
TEST(DeltaProduct, MaxSavedSizeBoundsSavedSize) {
  for (const size_t N : {1, 3, 40})
    for (const std::vector<int64_t>& offsets : std::vector<std::vector<int64_t>>{
             {0}, {0, 0}, {0, 1}, {0, 16, 32}, {0, 1, 2, 3, 100}, {0, 0, 0, 77}}) {
      DeltaProductInputs in;
      in.num_sequences = offsets.size() - 1;
      in.offsets = offsets.data();
      in.N = N, in.H = 2, in.K = 32, in.V = 20;
      const size_t bound = delta_product_max_saved_size(in, in.num_tokens());
      EXPECT_GE(bound, delta_product_saved_size(in));
      const int64_t one_token[] = {0, 1};
      in.num_sequences = 1, in.offsets = one_token, in.N = 1;
      EXPECT_LE(bound, delta_product_max_saved_size(in, 0) +
                           delta_product_saved_size(in) *
                               (offsets.size() - 1 + static_cast<size_t>(offsets.back()) * N / 16));
    }
}

// log_gate = -inf forgets exactly, in forward and backward.
TEST(DeltaProduct, AnInfinitelyNegativeGateForgetsEverything) {
  SerialExecutor serial;
  const Shape shape{{20}, 2, 1, 8, 8, true, true};
  Problem whole(shape);
  whole.log_gate.assign(20, -0.1f);
  whole.log_gate[7] = -INFINITY;
  std::fill(whole.d_o.begin(), whole.d_o.begin() + 7 * 8,
            0.0f);  // the loss looks at tokens 7 and on
  whole.forward_backward(serial);
  Problem tail({{13}, 2, 1, 8, 8, false, false});
  std::copy(whole.q.begin() + 7 * 8, whole.q.end(), tail.q.begin());
  std::copy(whole.k.begin() + 14 * 8, whole.k.end(), tail.k.begin());
  std::copy(whole.v.begin() + 14 * 8, whole.v.end(), tail.v.begin());
  std::copy(whole.beta.begin() + 14, whole.beta.end(), tail.beta.begin());
  tail.shape.gated = true;
  tail.log_gate.assign(13, -0.1f);
  tail.forward(serial);
  for (size_t i = 0; i < tail.o.size(); ++i) EXPECT_NEAR(tail.o[i], whole.o[7 * 8 + i], 1e-5);
  for (const Floats* gradient :
       {&whole.dq, &whole.dk, &whole.dv, &whole.dbeta, &whole.dlog_gate, &whole.dstate})
    for (const float x : *gradient) ASSERT_TRUE(std::isfinite(x));
  EXPECT_EQ(whole.dlog_gate[7], 0);
  for (const float x : whole.dstate) EXPECT_EQ(x, 0);
}

// Without values to write, no token makes the state larger, whatever the betas in [0,2] and gates are.
TEST(DeltaProduct, NoTokenExpandsTheState) {
  SerialExecutor serial;
  const auto norm = [](const Floats& x) {
    double sum = 0;
    for (const float value : x) sum += double(value) * value;
    return std::sqrt(sum);
  };
  for (const bool gated : {false, true})
    for (const int64_t tokens : {1, 40}) {  // the one-token step, and chunks
      Problem problem({{tokens}, 3, 1, 24, 20, gated, true});
      std::fill(problem.v.begin(), problem.v.end(), 0.0f);
      for (int round = 0; round < 50; ++round) {
        const double before = norm(problem.state);
        problem.forward(serial);
        EXPECT_LE(norm(problem.final_state), before * (1 + 1e-6))
            << "tokens " << tokens << " round " << round;
        problem.state = problem.final_state;
        std::rotate(problem.k.begin(), problem.k.begin() + 24, problem.k.end());
      }
    }
}

// Reflections keep the state's norm: no step expands, over a million of them.
TEST(DeltaProduct, ReflectionsKeepTheNormForAMillionSteps) {
  ThreadPool pool(2);
  const size_t K = 4, T = 500'000;
  Problem problem({{static_cast<int64_t>(T)}, 2, 1, K, K, false, true});
  std::fill(problem.v.begin(), problem.v.end(), 0.0f);
  std::fill(problem.beta.begin(), problem.beta.end(), 2.0f);
  std::fill(problem.state.begin(), problem.state.end(), 0.0f);
  for (size_t d = 0; d < K; ++d) problem.state[d * K + d] = 1;
  problem.forward(pool);
  // The state must still be orthogonal: S^T S = I.
  for (size_t a = 0; a < K; ++a)
    for (size_t b = 0; b < K; ++b) {
      double sum = 0;
      for (size_t d = 0; d < K; ++d)
        sum += double(problem.final_state[d * K + a]) * problem.final_state[d * K + b];
      EXPECT_NEAR(sum, a == b ? 1.0 : 0.0, 1e-3);
    }
}

}  // namespace
}  // namespace dp::delta_product_test
