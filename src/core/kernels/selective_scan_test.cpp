// The kernels against the recurrence in double precision, its gradients and their finite differences.
#include "kernels/selective_scan.h"

#include "kernels/test_arrays.h"

namespace dp::selective_scan_test {
namespace {

struct Shape {
  std::vector<int64_t> lengths;
  size_t E, N;
  bool negative = false, D = true, state = true, d_final_state = true;
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  for (const int64_t length : s.lengths) out << length << " ";
  return out << "tokens E=" << s.E << " N=" << s.N << (s.negative ? " negative" : "")
             << (s.D ? " D" : "") << (s.state ? " state" : "");
}

template <class Vector>
auto pointer(Vector& v) -> decltype(v.data()) {
  return v.empty() ? nullptr : v.data();
}

struct Problem {
  explicit Problem(const Shape& s) : shape(s) {
    for (const int64_t length : s.lengths) offsets.push_back(offsets.back() + length);
    const auto tokens = static_cast<size_t>(offsets.back());
    const size_t states = s.lengths.size() * s.E * s.N;
    x = normal_floats(tokens * s.E, 1);
    dt = normal_floats(tokens * s.E, 2);
    for (float& value : dt) value = 0.3f * std::exp(value);
    A = normal_floats(s.E * s.N, 3);
    for (float& value : A) value = -std::exp(value);
    B = normal_floats(tokens * s.N, 4);
    C = normal_floats(tokens * s.N, 5);
    if (s.D) D = normal_floats(s.E, 6);
    if (s.state) state = normal_floats(states, 7);
    dy = normal_floats(tokens * s.E, 8);
    if (s.d_final_state) d_final_state = normal_floats(states, 9);
    for (Floats* out : {&y, &dx, &ddt}) out->assign(tokens * s.E, kNaN);
    for (Floats* out : {&dB, &dC}) out->assign(tokens * s.N, kNaN);
    final_state.assign(states, kNaN);
    dA.assign(A.size(), kNaN);
    dD.assign(D.size(), kNaN);
    dstate.assign(state.size(), kNaN);
  }

  SelectiveScanInputs inputs() const {
    SelectiveScanInputs in;
    in.num_sequences = shape.lengths.size();
    in.offsets = offsets.data();
    in.E = shape.E, in.N = shape.N;
    in.negative_eigenvalues = shape.negative;
    in.x = x.data(), in.dt = dt.data(), in.A = A.data(), in.B = B.data(), in.C = C.data();
    in.D = pointer(D), in.state = pointer(state);
    return in;
  }

  void run(Executor& executor) {
    Floats saved(selective_scan_saved_size(inputs()), kNaN);
    selective_scan_forward(inputs(), {y.data(), final_state.data(), saved.data()}, executor);
    selective_scan_backward(inputs(),
                            {saved.data(), dy.data(), pointer(d_final_state), dx.data(), ddt.data(),
                             dA.data(), dB.data(), dC.data(), pointer(dD), pointer(dstate)},
                            executor);
  }

  std::vector<const Floats*> results() const {
    return {&y, &final_state, &dx, &ddt, &dA, &dB, &dC, &dD, &dstate};
  }

  Shape shape;
  std::vector<int64_t> offsets{0};
  Floats x, dt, A, B, C, D, state, dy, d_final_state;
  Floats y, final_state, dx, ddt, dA, dB, dC, dD, dstate;
};

// Forward and backward as the formulas say, every h kept; one channel, state and token after another.
struct Reference {
  explicit Reference(const Problem& p)
      : shape(p.shape),
        offsets(p.offsets),
        x(to_double(p.x)),
        dt(to_double(p.dt)),
        A(to_double(p.A)),
        B(to_double(p.B)),
        C(to_double(p.C)),
        D(p.D.empty() ? Doubles(p.shape.E) : to_double(p.D)),
        state(p.state.empty() ? Doubles(p.final_state.size()) : to_double(p.state)),
        dy(to_double(p.dy)),
        d_final_state(p.d_final_state.empty() ? Doubles(state.size()) : to_double(p.d_final_state)),
        dx(x.size()),
        ddt(x.size()),
        dA(A.size()),
        dB(B.size()),
        dC(C.size()),
        dD(D.size()),
        dstate(state.size()),
        dB_terms(B.size()),
        dC_terms(C.size()) {
    forward();
    for (size_t s = 0; s < shape.lengths.size(); ++s)
      for (size_t e = 0; e < shape.E; ++e)
        for (size_t n = 0; n < shape.N; ++n) backward(s, e, n);
    for (size_t i = 0; i < x.size(); ++i) {
      dx[i] += D[i % shape.E] * dy[i];
      dD[i % shape.E] += x[i] * dy[i];
    }
  }

  double eigenvalue(size_t t, size_t e, size_t n) const {
    const double exponential = std::exp(dt[t * shape.E + e] * A[e * shape.N + n]);
    return shape.negative ? 2 * exponential - 1 : exponential;
  }

  // h [T+1] of one state of one sequence.
  Doubles run(size_t s, size_t e, size_t n) const {
    Doubles h = {state[(s * shape.E + e) * shape.N + n]};
    for (auto t = static_cast<size_t>(offsets[s]); t < static_cast<size_t>(offsets[s + 1]); ++t)
      h.push_back(eigenvalue(t, e, n) * h.back() +
                  dt[t * shape.E + e] * B[t * shape.N + n] * x[t * shape.E + e]);
    return h;
  }

  void forward() {
    y.assign(x.size(), 0.0);
    for (size_t i = 0; i < x.size(); ++i) y[i] = D[i % shape.E] * x[i];
    final_state.assign(state.size(), 0.0);
    for (size_t s = 0; s < shape.lengths.size(); ++s)
      for (size_t e = 0; e < shape.E; ++e)
        for (size_t n = 0; n < shape.N; ++n) {
          const Doubles h = run(s, e, n);
          const auto first = static_cast<size_t>(offsets[s]);
          for (size_t i = 1; i < h.size(); ++i)
            y[(first + i - 1) * shape.E + e] += C[(first + i - 1) * shape.N + n] * h[i];
          final_state[(s * shape.E + e) * shape.N + n] = h.back();
        }
  }

  void backward(size_t s, size_t e, size_t n) {
    const Doubles h = run(s, e, n);
    const size_t E = shape.E, N = shape.N;
    double dh = d_final_state[(s * E + e) * N + n];
    for (size_t i = h.size() - 1; i > 0; --i) {
      const size_t t = static_cast<size_t>(offsets[s]) + i - 1, te = t * E + e, tn = t * N + n;
      dC[tn] += dy[te] * h[i];
      dC_terms[tn] += std::abs(dy[te] * h[i]);
      dh += dy[te] * C[tn];
      dB[tn] += dh * dt[te] * x[te];
      dB_terms[tn] += std::abs(dh * dt[te] * x[te]);
      dx[te] += dh * dt[te] * B[tn];
      const double slope = (shape.negative ? 2 : 1) * std::exp(dt[te] * A[e * N + n]);
      ddt[te] += dh * (B[tn] * x[te] + h[i - 1] * slope * A[e * N + n]);
      dA[e * N + n] += dh * h[i - 1] * slope * dt[te];
      dh *= eigenvalue(t, e, n);
    }
    dstate[(s * E + e) * N + n] = dh;
  }

  double loss() {
    forward();
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    for (size_t i = 0; i < state.size(); ++i) sum += final_state[i] * d_final_state[i];
    return sum;
  }

  Shape shape;
  std::vector<int64_t> offsets;
  Doubles x, dt, A, B, C, D, state, dy, d_final_state;
  Doubles y, final_state, dx, ddt, dA, dB, dC, dD, dstate;
  Doubles dB_terms, dC_terms;  // sums over channels of the terms' sizes
};

double largest(const Doubles& x) {
  double found = 1e-30;
  for (const double value : x) found = std::max(found, std::abs(value));
  return found;
}

// Of a sum over channels, beside its terms: the sum itself may be close to 0.
double error_of_sums(const Floats& got, const Doubles& want, const Doubles& terms) {
  return relative_error(got, want) * largest(want) / largest(terms);
}

void expect_matches(const Problem& p, const Reference& want, double tolerance = 3e-6) {
  EXPECT_LE(relative_error(p.y, want.y), tolerance) << "y";
  EXPECT_LE(relative_error(p.final_state, want.final_state), tolerance) << "final state";
  EXPECT_LE(relative_error(p.dx, want.dx), tolerance) << "dx";
  EXPECT_LE(relative_error(p.ddt, want.ddt), tolerance) << "ddt";
  EXPECT_LE(relative_error(p.dA, want.dA), tolerance) << "dA";
  EXPECT_LE(error_of_sums(p.dB, want.dB, want.dB_terms), tolerance) << "dB";
  EXPECT_LE(error_of_sums(p.dC, want.dC, want.dC_terms), tolerance) << "dC";
  if (p.shape.D) {
    EXPECT_LE(relative_error(p.dD, want.dD), tolerance) << "dD";
  }
  if (p.shape.state) {
    EXPECT_LE(relative_error(p.dstate, want.dstate), tolerance) << "dstate";
  }
}

using SelectiveScan = PointwiseOnEveryTarget;

TEST_P(SelectiveScan, ForwardAndGradientsMatchTheRecurrence) {
  SerialExecutor serial;
  for (const size_t E : {1, 5, 17, 64, 150})
    for (const size_t N : {1, 3, 16})
      for (const int64_t T : {1, 7, 16, 33})
        for (const bool negative : {false, true}) {
          const Shape shape{{T}, E, N, negative};
          SCOPED_TRACE(testing::Message() << shape);
          Problem p(shape);
          p.run(serial);
          expect_matches(p, Reference(p));
        }
}

TEST_P(SelectiveScan, PackedSequencesAndWhatMayBeMissing) {
  SerialExecutor serial;
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{15, 2, 0, 17, 1}, {0, 0, 40}, std::vector<int64_t>(150, 3)})
    for (const bool negative : {false, true})
      for (const bool D : {false, true})
        for (const bool state : {false, true})
          for (const bool d_final_state : {false, true}) {
            const Shape shape{lengths, 9, 5, negative, D, state, d_final_state};
            SCOPED_TRACE(testing::Message() << shape);
            Problem p(shape);
            p.run(serial);
            expect_matches(p, Reference(p));
          }
}

TEST_P(SelectiveScan, ThreadsDoNotChangeABit) {
  SerialExecutor serial;
  for (const Shape& shape :
       {Shape{{40, 3, 70}, 200, 16}, {std::vector<int64_t>(150, 5), 70, 3, true}, {{90}, 33, 8}}) {
    Problem one(shape);
    one.run(serial);
    for (const int threads : {2, 5}) {
      ThreadPool pool(threads);
      Problem many(shape);
      many.run(pool);
      for (size_t i = 0; i < one.results().size(); ++i)
        EXPECT_EQ(*one.results()[i], *many.results()[i]) << "result " << i;
    }
  }
}

// Steps of 0 keep the state; endless ones forget it, or turn it around.
TEST_P(SelectiveScan, StepsOfAnySize) {
  SerialExecutor serial;
  for (const bool negative : {false, true}) {
    for (const float step : {0.0f, 1e-30f, 87.0f, 88.0f, 100.0f, 1e4f, 1e20f}) {
      SCOPED_TRACE(testing::Message() << "negative=" << negative << " step " << step);
      Problem p({{20}, 19, 5, negative});
      std::fill(p.dt.begin(), p.dt.end(), step);
      std::fill(p.A.begin(), p.A.end(), -1.0f);
      std::fill(p.B.begin(), p.B.end(), 0.0f);  // else the step's size hides the state
      p.run(serial);
      const Reference want(p);
      EXPECT_LE(relative_error(p.y, want.y), 3e-6);
      EXPECT_LE(relative_error(p.final_state, want.final_state), 3e-6);
      for (const Floats* result : p.results())
        for (const float value : *result) ASSERT_TRUE(std::isfinite(value));
      if (step == 0) {
        EXPECT_EQ(p.final_state, p.state);
      }
    }
    Problem mixed({{40}, 21, 4, negative});
    const float steps[] = {0, 1e-20f, 1, 1000};
    for (size_t i = 0; i < mixed.dt.size(); ++i) mixed.dt[i] = steps[i * i % 7 % 4];
    mixed.run(serial);
    expect_matches(mixed, Reference(mixed));
  }
}

// A run cut in two, the second part from the first one's last state, is the whole run.
TEST_P(SelectiveScan, StateContinuesASequence) {
  SerialExecutor serial;
  constexpr size_t kE = 24, kN = 3;
  for (const size_t cut : {1, 9, 16, 33}) {
    Problem whole({{40}, kE, kN, true}), first({{int64_t(cut)}, kE, kN, true});
    Problem rest({{int64_t(40 - cut)}, kE, kN, true});
    whole.run(serial);
    const auto part = [](Floats& to, const Floats& from, size_t row, size_t begin) {
      const auto at = from.begin() + static_cast<std::ptrdiff_t>(begin * row);
      std::copy(at, at + static_cast<std::ptrdiff_t>(to.size()), to.begin());
    };
    for (auto& [p, begin] : {std::pair<Problem*, size_t>{&first, 0}, {&rest, cut}}) {
      part(p->x, whole.x, kE, begin), part(p->dt, whole.dt, kE, begin);
      part(p->B, whole.B, kN, begin), part(p->C, whole.C, kN, begin);
    }
    first.run(serial);
    rest.state = first.final_state;
    rest.run(serial);
    EXPECT_EQ(rest.final_state, whole.final_state);
    EXPECT_TRUE(std::equal(rest.y.rbegin(), rest.y.rend(), whole.y.rbegin()));
    EXPECT_TRUE(std::equal(first.y.begin(), first.y.end(), whole.y.begin()));
  }
}

TEST_P(SelectiveScan, NaNStaysInItsChannel) {
  SerialExecutor serial;
  Problem clean({{20}, 18, 4}), bad({{20}, 18, 4});
  clean.run(serial);
  bad.A[5 * 4 + 1] = kNaN;
  bad.dt[3 * 18 + 17] = kNaN;
  bad.run(serial);
  for (size_t i = 0; i < bad.y.size(); ++i) {
    const size_t t = i / 18, e = i % 18;
    if (e == 5 || (e == 17 && t >= 3))
      EXPECT_TRUE(std::isnan(bad.y[i])) << t << " " << e;
    else
      EXPECT_EQ(bad.y[i], clean.y[i]) << t << " " << e;
  }
}

DP_INSTANTIATE_ON_EVERY_TARGET(SelectiveScan);

TEST(SelectiveScanShapes, NoTokensAndNoSequences) {
  SerialExecutor serial;
  Problem p({{0, 0}, 5, 3});
  p.run(serial);
  EXPECT_EQ(p.final_state, p.state);
  EXPECT_EQ(p.dstate, p.d_final_state);
  EXPECT_EQ(p.dA, Floats(15, 0.0f));
  Problem none({{}, 5, 3});
  none.run(serial);
  EXPECT_EQ(none.dA, Floats(15, 0.0f));
}

// The judge of the gradients above.
TEST(SelectiveScanReference, GradientsMatchFiniteDifferences) {
  for (const bool negative : {false, true}) {
    Reference r(Problem({{4, 0, 3}, 2, 3, negative}));
    const auto check = [&](const char* name, Doubles& values, const Doubles& gradient) {
      for (size_t i = 0; i < values.size(); ++i) {
        const double old = values[i], step = 1e-5;
        values[i] = old + step;
        const double above = r.loss();
        values[i] = old - step;
        const double below = r.loss();
        values[i] = old;
        EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-8) << name << " " << i;
      }
    };
    check("x", r.x, r.dx);
    check("dt", r.dt, r.ddt);
    check("A", r.A, r.dA);
    check("B", r.B, r.dB);
    check("C", r.C, r.dC);
    check("D", r.D, r.dD);
    check("state", r.state, r.dstate);
  }
}

}  // namespace
}  // namespace dp::selective_scan_test
