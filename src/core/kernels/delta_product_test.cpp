// The float32 kernels against the double-precision recurrence, on every SIMD target of this machine.
#include "kernels/delta_product.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/reference.h"
#include "kernels/test_delta_product.h"

namespace dp::delta_product_test {
namespace {

// Rows first .. first+count-1 of one head from an array [rows, H, width].
std::vector<double> head_rows(const Floats& x, size_t first, size_t count, size_t H, size_t h,
                              size_t width) {
  std::vector<double> out;
  if (x.empty()) return out;
  for (size_t row = first; row < first + count; ++row) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>((row * H + h) * width);
    out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  return out;
}

// Rows of width K divided by sqrt(|row|^2 + 1e-6).
std::vector<double> unit_rows(std::vector<double> x, size_t K) {
  for (size_t row = 0; row < x.size(); row += K) {
    double squares = 1e-6;
    for (size_t d = 0; d < K; ++d) squares += x[row + d] * x[row + d];
    for (size_t d = 0; d < K; ++d) x[row + d] /= std::sqrt(squares);
  }
  return x;
}

// From the gradient of unit_rows(x) to that of x.
std::vector<double> through_unit_rows(const std::vector<double>& x, std::vector<double> dy,
                                      size_t K) {
  for (size_t row = 0; row < x.size(); row += K) {
    double squares = 1e-6, along = 0;
    for (size_t d = 0; d < K; ++d) {
      squares += x[row + d] * x[row + d];
      along += x[row + d] * dy[row + d];
    }
    for (size_t d = 0; d < K; ++d)
      dy[row + d] = (dy[row + d] - x[row + d] * along / squares) / std::sqrt(squares);
  }
  return dy;
}

// Largest |got - want| over all heads, against the largest |want|: the measure of tests/data/golden.
class Comparison {
 public:
  void add(const std::vector<double>& got, const std::vector<double>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const double error = std::abs(got[i] - want[i]);
      if (!(error <= error_)) error_ = std::isnan(error) ? INFINITY : error;
      largest_ = std::max(largest_, std::abs(want[i]));
    }
  }
  double relative() const { return error_ == 0 ? 0 : error_ / largest_; }

 private:
  double error_ = 0, largest_ = 1e-30;
};

void expect_matches_reference(const Problem& p, bool with_gradients, double tolerance) {
  const Shape& s = p.shape;
  Comparison o, state, dq, dk, dv, dbeta, dgate, dstate;
  for (size_t n = 0; n < s.lengths.size(); ++n) {
    for (size_t h = 0; h < s.H; ++h) {
      const size_t first = static_cast<size_t>(p.offsets[n]), T = static_cast<size_t>(s.lengths[n]);
      const auto per_token = [&](const Floats& x, size_t width) {
        return head_rows(x, first, T, s.H, h, width);
      };
      const auto per_step = [&](const Floats& x, size_t width) {
        return head_rows(x, first * s.N, T * s.N, s.H, h, width);
      };
      const auto per_sequence = [&](const Floats& x) {
        return head_rows(x, n, 1, s.H, h, s.K * s.V);
      };
      const std::vector<double> q = per_token(p.q, s.K), k = per_step(p.k, s.K);
      const ReferenceInputs in{T,
                               s.N,
                               s.K,
                               s.V,
                               p.scale,
                               p.normalise_qk ? unit_rows(q, s.K) : q,
                               p.normalise_qk ? unit_rows(k, s.K) : k,
                               per_step(p.v, s.V),
                               per_step(p.beta, 1),
                               per_token(p.log_gate, 1),
                               per_sequence(p.state)};
      const ReferenceOutputs want = reference_forward(in);
      o.add(per_token(p.o, s.V), want.o);
      state.add(per_sequence(p.final_state), want.state);
      if (!with_gradients) continue;
      ReferenceInputs d = reference_backward(in, per_token(p.d_o, s.V), per_sequence(p.d_final));
      if (p.normalise_qk) {
        d.q = through_unit_rows(q, d.q, s.K);
        d.k = through_unit_rows(k, d.k, s.K);
      }
      dq.add(per_token(p.dq, s.K), d.q);
      dk.add(per_step(p.dk, s.K), d.k);
      dv.add(per_step(p.dv, s.V), d.v);
      dbeta.add(per_step(p.dbeta, 1), d.beta);
      dgate.add(per_token(p.dlog_gate, 1), d.log_gate);
      dstate.add(per_sequence(p.dstate), d.state);
    }
  }
  EXPECT_LE(o.relative(), tolerance);
  EXPECT_LE(state.relative(), tolerance);
  EXPECT_LE(dq.relative(), tolerance) << "dq";
  EXPECT_LE(dk.relative(), tolerance) << "dk";
  EXPECT_LE(dv.relative(), tolerance) << "dv";
  EXPECT_LE(dbeta.relative(), tolerance) << "dbeta";
  EXPECT_LE(dgate.relative(), tolerance) << "dlog_gate";
  EXPECT_LE(dstate.relative(), tolerance) << "dstate";
}

constexpr double kTolerance = 5e-6;  // measured: 3.4e-6 in dlog_gate, at most 1.5e-6 elsewhere

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {{1}, 1, 1, 1, 1, true, true},          {{3}, 2, 1, 1, 5},
      {{5, 0, 1}, 2, 3, 3, 2, true, true},    {{17}, 1, 2, 16, 16, false, true},
      {{33, 31}, 2, 2, 32, 32, true, false},  {{40}, 3, 1, 17, 37, true, true},
      {{9, 50, 2}, 4, 1, 60, 32, true, true}, {{65}, 2, 1, 64, 61, false, false},
      {{7}, 19, 1, 12, 20, true, true},  // more factors than a chunk has steps
      {{2}, 70, 1, 64, 16, true, false},      {{41}, 1, 1, 129, 48, true, true},
      {{40}, 2, 1, 270, 16, true, true},      {{100}, 1, 2, 96, 96, true, true},
  };
  return all;
}

class EveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(EveryTarget, ForwardAndGradientsMatchReference) {
  SerialExecutor serial;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(name(shape));
    Problem problem(shape);
    problem.forward_backward(serial);
    expect_matches_reference(problem, true, kTolerance);
  }
}

// Queries and keys of any length. A row of one element is always of length 1, so its gradient is nothing but rounding.
TEST_P(EveryTarget, NormalisedRowsMatchReference) {
  SerialExecutor serial;
  for (const Shape& shape : shapes()) {
    if (shape.K == 1) continue;
    SCOPED_TRACE(name(shape));
    Problem problem(shape);
    problem.normalise_qk = true;
    for (float& x : problem.k) x *= 3;
    problem.forward_backward(serial);
    expect_matches_reference(problem, true, kTolerance);
    problem.forward(serial);  // one token takes the step kernel
    expect_matches_reference(problem, false, kTolerance);
  }
  // Squares beyond float32, and rows of zeros.
  Problem large({{40}, 1, 1, 24, 16, true, false}), unit({{40}, 1, 1, 24, 16, true, false});
  large.normalise_qk = unit.normalise_qk = true;
  for (float& x : large.k) x *= 0x1p70f;
  for (Floats* rows : {&large.q, &unit.q, &large.k, &unit.k})
    std::fill(rows->begin() + 24, rows->begin() + 48, 0.0f);
  large.forward_backward(serial);
  unit.forward_backward(serial);
  for (const Floats* gradient : {&large.dq, &large.dk, &unit.dq, &unit.dk})
    for (const float x : *gradient) ASSERT_TRUE(std::isfinite(x));
  for (size_t i = 0; i < unit.o.size(); ++i) EXPECT_NEAR(large.o[i], unit.o[i], 1e-5);
}

// An array [rows, width] as columns of one whose rows are `pitch` wide and otherwise NaN.
struct Columns {
  Columns(const Floats& narrow, size_t width, size_t pitch)
      : width(width), pitch(pitch), memory(narrow.size() / width * pitch, kNaN) {
    for (size_t i = 0; i < narrow.size(); ++i) memory[i / width * pitch + i % width] = narrow[i];
  }
  Floats narrow() const {
    Floats out;
    for (size_t i = 0; i < memory.size(); ++i) {
      if (i % pitch < width) {
        out.push_back(memory[i]);
      } else {
        EXPECT_TRUE(std::isnan(memory[i])) << "written beside its columns at " << i;
      }
    }
    return out;
  }
  size_t width, pitch;
  Floats memory;
};

TEST_P(EveryTarget, ColumnsOfWiderRowsGiveTheSameBits) {
  SerialExecutor serial;
  std::vector<Shape> all = shapes();
  all.push_back({{1, 1}, 2, 2, 16, 16, true, true});
  for (const Shape& s : all)
    for (const bool normalise : {false, true}) {
      SCOPED_TRACE(name(s));
      Problem plain(s), wide(s);
      plain.normalise_qk = wide.normalise_qk = normalise;
      plain.forward_backward(serial);
      const size_t keys = s.H * s.K, values = s.H * s.V;
      const Columns q(wide.q, keys, keys + 3), k(wide.k, keys, keys + 16),
          v(wide.v, values, values + 1);
      Columns dq(wide.dq, keys, keys + 16), dk(wide.dk, keys, keys + 5),
          dv(wide.dv, values, values + 2);
      DeltaProductInputs in = wide.inputs();
      in.q = q.memory.data(), in.k = k.memory.data(), in.v = v.memory.data();
      in.q_pitch = q.pitch, in.k_pitch = k.pitch, in.v_pitch = v.pitch;
      DeltaProductGradients g = wide.gradients();
      g.dq = dq.memory.data(), g.dk = dk.memory.data(), g.dv = dv.memory.data();
      g.dq_pitch = dq.pitch, g.dk_pitch = dk.pitch, g.dv_pitch = dv.pitch;
      Floats saved(delta_product_saved_size(in), kNaN);
      delta_product_forward(in, wide.o.data(), wide.final_state.data(), saved.data(), serial);
      delta_product_backward(in, saved.data(), g, serial);
      EXPECT_EQ(plain.o, wide.o);
      EXPECT_EQ(plain.final_state, wide.final_state);
      EXPECT_EQ(plain.dq, dq.narrow());
      EXPECT_EQ(plain.dk, dk.narrow());
      EXPECT_EQ(plain.dv, dv.narrow());
      EXPECT_EQ(plain.dbeta, wide.dbeta);
      EXPECT_EQ(plain.dlog_gate, wide.dlog_gate);
      EXPECT_EQ(plain.dstate, wide.dstate);
      plain.forward(serial);
      delta_product_forward(in, wide.o.data(), wide.final_state.data(), nullptr, serial);
      EXPECT_EQ(plain.o, wide.o);  // also where one token takes the step kernel
    }
}

TEST_P(EveryTarget, ForwardWithoutSavingGivesTheSameBits) {
  SerialExecutor serial;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(name(shape));
    Problem saving(shape), plain(shape);
    saving.forward_backward(serial);
    delta_product_forward(plain.inputs(), plain.o.data(), nullptr, nullptr, serial);
    if (shape.lengths != std::vector<int64_t>{1}) {
      EXPECT_EQ(saving.o, plain.o);
    }
  }
}

// Large arrays that are aligned are written past the caches, others are not: in either case the same bits.
TEST_P(EveryTarget, LargeResultsMayLieAnywhere) {
  SerialExecutor serial;
  const Problem problem({{8000, 200}, 1, 8, 16, 48, true, false});
  const auto results_at = [&](size_t misalignment) {
    Array o(problem.o, misalignment), dq(problem.dq, misalignment), dk(problem.dk, misalignment),
        dv(problem.dv, misalignment),
        saved(Floats(delta_product_saved_size(problem.inputs()), kNaN), misalignment);
    Floats dbeta = problem.dbeta, dlog_gate = problem.dlog_gate;
    delta_product_forward(problem.inputs(), o.data(), nullptr, saved.data(), serial);
    DeltaProductGradients g;
    g.d_o = problem.d_o.data(), g.dq = dq.data(), g.dk = dk.data(), g.dv = dv.data();
    g.dbeta = dbeta.data(), g.dlog_gate = dlog_gate.data();
    delta_product_backward(problem.inputs(), saved.data(), g, serial);
    return std::vector<Floats>{o.values(), dq.values(), dk.values(), dv.values(), dbeta, dlog_gate};
  };
  const std::vector<Floats> aligned = results_at(0);
  for (const Floats& values : aligned)
    EXPECT_TRUE(std::ranges::none_of(values, [](float x) { return std::isnan(x); }));
  for (const size_t misalignment : {1, 8}) EXPECT_TRUE(results_at(misalignment) == aligned);
}

TEST_P(EveryTarget, OneTokenStepMatchesReference) {
  SerialExecutor serial;
  for (const size_t N : {1, 2, 3, 4, 5, 9})
    for (const size_t K : {1, 7, 32})
      for (const size_t V : {1, 8, 33, 64, 81})
        for (const bool gated : {false, true}) {
          Problem problem({{1, 1, 1}, N, 2, K, V, gated, true});
          SCOPED_TRACE(name(problem.shape));
          problem.forward(serial);
          expect_matches_reference(problem, false, kTolerance);
        }
}

TEST_P(EveryTarget, ResultsDoNotDependOnTheNumberOfThreads) {
  SerialExecutor serial;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(name(shape));
    Problem one(shape);
    one.forward_backward(serial);
    for (const int threads : {2, 3, 16}) {
      ThreadPool pool(threads);
      Problem many(shape);
      many.forward_backward(pool);
      EXPECT_EQ(one.o, many.o);
      EXPECT_EQ(one.final_state, many.final_state);
      EXPECT_EQ(one.dq, many.dq);
      EXPECT_EQ(one.dk, many.dk);
      EXPECT_EQ(one.dv, many.dv);
      EXPECT_EQ(one.dbeta, many.dbeta);
      EXPECT_EQ(one.dlog_gate, many.dlog_gate);
      EXPECT_EQ(one.dstate, many.dstate);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

// Without SIMD, or with as much as every CPU of this architecture has: newer versions of Highway compile nothing below.
TEST(DeltaProduct, TheLeastTargetIsAmongThoseTested) {
  EXPECT_NE(std::ranges::count(hwy::SupportedAndGeneratedTargets(), HWY_STATIC_TARGET), 0);
}

}  // namespace
}  // namespace dp::delta_product_test
