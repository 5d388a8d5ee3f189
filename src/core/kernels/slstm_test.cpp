// The kernels against the recurrence in double precision, and gradients against its finite differences.
#include "kernels/slstm.h"

#include "kernels/test_arrays.h"

namespace dp::slstm_test {
namespace {

struct Shape {
  std::vector<int64_t> lengths;
  size_t H, K;
  bool state = false, d_final_state = false;
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  out << "lengths";
  for (const int64_t length : s.lengths) out << " " << length;
  return out << " H=" << s.H << " K=" << s.K << (s.state ? " state" : "")
             << (s.d_final_state ? " d_final_state" : "");
}

template <class Vector>
auto pointer(Vector& v) -> decltype(v.data()) {
  return v.empty() ? nullptr : v.data();
}

struct Problem {
  explicit Problem(const Shape& s, float deviation = 1) : shape(s) {
    for (const int64_t length : s.lengths) offsets.push_back(offsets.back() + length);
    const size_t units = tokens() * s.H * s.K, states = s.lengths.size() * s.H * 4 * s.K;
    gates = normal_floats(units * 4, 1, deviation);
    recurrent = normal_floats(s.H * 4 * s.K * s.K, 2, 1 / std::sqrt(static_cast<float>(s.K)));
    if (s.state) {
      state = normal_floats(states, 3);
      for (size_t i = 0; i < states; ++i)
        if (i / s.K % 4 == 2) state[i] = 0.5f + std::abs(state[i]);
    }
    dh = normal_floats(units, 4);
    if (s.d_final_state) d_final_state = normal_floats(states, 5);
    h.assign(units, kNaN);
    final_state.assign(states, kNaN);
    saved.assign(slstm_saved_size(inputs()), kNaN);
    dgates.assign(gates.size(), kNaN);
    drecurrent.assign(recurrent.size(), kNaN);
    dstate.assign(state.size(), kNaN);
  }

  size_t tokens() const { return static_cast<size_t>(offsets.back()); }

  SlstmInputs inputs() const {
    return {shape.lengths.size(), offsets.data(),   shape.H,       shape.K,
            gates.data(),         recurrent.data(), pointer(state)};
  }

  void run(Executor& executor) {
    slstm_forward(inputs(), h.data(), final_state.data(), saved.data(), executor);
    slstm_backward(
        inputs(), h.data(), saved.data(),
        {dh.data(), pointer(d_final_state), dgates.data(), drecurrent.data(), pointer(dstate)},
        executor);
  }

  std::vector<const Floats*> results() const {
    return {&h, &final_state, &dgates, &drecurrent, &dstate};
  }

  Shape shape;
  std::vector<int64_t> offsets{0};
  Floats gates, recurrent, state, dh, d_final_state;
  Floats h, final_state, saved, dgates, drecurrent, dstate;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
// As min(x, 0) - log(1 + exp(-|x|)), which neither overflows nor loses digits.
double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

// The recurrence in double. The first run finds m; later ones hold it fixed, as the gradients do.
struct Reference {
  explicit Reference(const Problem& p)
      : shape(p.shape),
        offsets(p.offsets),
        gates(to_double(p.gates)),
        recurrent(to_double(p.recurrent)),
        state(to_double(p.state)),
        h(p.h.size()),
        final_state(p.final_state.size()) {
    run();
  }

  void run() {
    const bool first = m_of.empty();
    if (first) m_of.resize(h.size());
    for (size_t s = 0; s < shape.lengths.size(); ++s)
      for (size_t head = 0; head < shape.H; ++head) run_head(s, head, first);
  }

  void run_head(size_t s, size_t head, bool first) {
    const size_t K = shape.K, at_state = (s * shape.H + head) * 4 * K;
    Doubles now(4 * K, 0.0);
    if (!state.empty()) std::copy_n(state.begin() + std::ptrdiff_t(at_state), 4 * K, now.begin());
    for (auto token = size_t(offsets[s]); token < size_t(offsets[s + 1]); ++token) {
      const Doubles old = now;
      for (size_t k = 0; k < K; ++k) {
        double u[4];
        for (size_t g = 0; g < 4; ++g) {
          u[g] = gates[((token * shape.H + head) * 4 + g) * K + k];
          for (size_t j = 0; j < K; ++j)
            u[g] += recurrent[((head * 4 + g) * K + k) * K + j] * old[j];
        }
        double& m = m_of[(token * shape.H + head) * K + k];
        const double n = old[2 * K + k],
                     a = log_sigmoid(u[1]) + (n == 0 ? -INFINITY : old[3 * K + k]);
        if (first) m = std::max(a, u[0]);
        const double i = std::exp(u[0] - m), f = std::exp(a - m);
        now[K + k] = f * old[K + k] + i * std::tanh(u[2]);
        now[2 * K + k] = f * n + i;
        now[3 * K + k] = m;
        now[k] = sigmoid(u[3]) * now[K + k] / now[2 * K + k];
        h[(token * shape.H + head) * K + k] = now[k];
      }
    }
    std::copy(now.begin(), now.end(), final_state.begin() + std::ptrdiff_t(at_state));
  }

  // Of sum(h dh) + sum(final_state d_final_state), m left out, after one of the inputs above.
  Doubles gradient(const Problem& p, Doubles& x) {
    const auto loss = [&] {
      run();
      double sum = 0;
      for (size_t i = 0; i < h.size(); ++i) sum += h[i] * p.dh[i];
      for (size_t i = 0; i < p.d_final_state.size(); ++i)
        if (i / shape.K % 4 != 3) sum += final_state[i] * p.d_final_state[i];
      return sum;
    };
    Doubles out;
    for (double& value : x) {
      const double old = value, step = 1e-5;
      value = old + step;
      const double above = loss();
      value = old - step;
      const double below = loss();
      value = old;
      out.push_back((above - below) / (2 * step));
    }
    run();
    return out;
  }

  Shape shape;
  std::vector<int64_t> offsets;
  Doubles gates, recurrent, state;
  Doubles h, final_state, m_of;
};

using Slstm = PointwiseOnEveryTarget;

TEST_P(Slstm, ForwardAndGradientsMatchTheRecurrence) {
  SerialExecutor serial;
  for (const Shape& shape : {
           Shape{{1}, 1, 1},
           {{3}, 1, 1, true, true},
           {{4, 4}, 2, 3, false, true},
           {{2, 0, 5, 1}, 2, 2, true, true},
           {{3, 0, 4}, 1, 5},
           {{2, 3}, 1, 9, true, false},
           {{3, 3}, 1, 16, false, true},
           {std::vector<int64_t>(14, 2), 1, 2, true, true},  // more than a group
       }) {
    SCOPED_TRACE(testing::Message() << shape);
    Problem p(shape);
    p.run(serial);
    Reference want(p);
    EXPECT_LE(relative_error(p.h, want.h), 1e-6);
    EXPECT_LE(relative_error(p.final_state, want.final_state), 1e-6);
    EXPECT_LE(relative_error(p.dgates, want.gradient(p, want.gates)), 3e-6);
    EXPECT_LE(relative_error(p.drecurrent, want.gradient(p, want.recurrent)), 3e-6);
    Doubles dstate = want.gradient(p, want.state);
    for (size_t i = 0; i < dstate.size(); ++i)
      if (i / shape.K % 4 == 3) dstate[i] = 0;  // m
    EXPECT_LE(relative_error(p.dstate, dstate), 3e-6);
  }
}

// Widths above a panel, more sequences than a group and of many lengths; too large for differences.
TEST_P(Slstm, LargerShapes) {
  SerialExecutor serial;
  std::vector<int64_t> lengths;
  for (int64_t s = 0; s < 29; ++s) lengths.push_back(s * 7 % 23);
  for (const size_t K : {15, 17, 32, 47}) {
    Problem p({lengths, 2, K, true, false});
    p.run(serial);
    const Reference want(p);
    EXPECT_LE(relative_error(p.h, want.h), 5e-6) << K;
    EXPECT_LE(relative_error(p.final_state, want.final_state), 5e-6) << K;
    // dR is the sum of du_t h_{t-1}^T, with du the gates' gradient.
    Doubles drecurrent(p.recurrent.size(), 0.0);
    for (size_t s = 0; s < lengths.size(); ++s)
      for (int64_t t = 0; t < lengths[s]; ++t)
        for (size_t row = 0; row < 2 * 4 * K; ++row)
          for (size_t k = 0; k < K; ++k) {
            const size_t head = row / (4 * K), token = size_t(p.offsets[s] + t);
            const float before = t == 0 ? p.state[(s * 2 + head) * 4 * K + k]
                                        : p.h[((token - 1) * 2 + head) * K + k];
            drecurrent[row * K + k] += double{p.dgates[token * 2 * 4 * K + row]} * before;
          }
    EXPECT_LE(relative_error(p.drecurrent, drecurrent), 2e-6) << K;
  }
}

// The gradients of many sequences together are those of each alone.
TEST_P(Slstm, SequencesAreSeparate) {
  SerialExecutor serial;
  const std::vector<int64_t> lengths = {5, 0, 9, 1, 9, 3, 2, 7, 7, 1, 12, 4, 6, 8};
  constexpr size_t H = 2, K = 19, kUnits = H * K;
  Problem all({lengths, H, K, true, true});
  all.run(serial);
  const auto part = [](const Floats& x, size_t begin, size_t end) {
    return Floats(x.begin() + std::ptrdiff_t(begin), x.begin() + std::ptrdiff_t(end));
  };
  for (size_t s = 0; s < lengths.size(); ++s) {
    Problem one({{lengths[s]}, H, K, true, true});
    const auto begin = size_t(all.offsets[s]), end = size_t(all.offsets[s + 1]);
    one.gates = part(all.gates, begin * 4 * kUnits, end * 4 * kUnits);
    one.state = part(all.state, s * 4 * kUnits, (s + 1) * 4 * kUnits);
    one.dh = part(all.dh, begin * kUnits, end * kUnits);
    one.d_final_state = part(all.d_final_state, s * 4 * kUnits, (s + 1) * 4 * kUnits);
    one.run(serial);
    EXPECT_EQ(one.h, part(all.h, begin * kUnits, end * kUnits));
    EXPECT_EQ(one.dgates, part(all.dgates, begin * 4 * kUnits, end * 4 * kUnits));
    EXPECT_EQ(one.final_state, part(all.final_state, s * 4 * kUnits, (s + 1) * 4 * kUnits));
    EXPECT_EQ(one.dstate, part(all.dstate, s * 4 * kUnits, (s + 1) * 4 * kUnits));
  }
}

TEST_P(Slstm, ResultsDoNotDependOnTheNumberOfThreads) {
  SerialExecutor serial;
  for (const Shape& shape : {Shape{std::vector<int64_t>(30, 9), 2, 24, true, true},
                             {{40, 3, 17}, 1, 33},
                             {{70}, 3, 16, false, true}}) {
    Problem one(shape);
    one.run(serial);
    for (const int threads : {2, 5}) {
      ThreadPool pool(threads);
      Problem many(shape);
      many.run(pool);
      for (size_t i = 0; i < one.results().size(); ++i)
        EXPECT_EQ(*one.results()[i], *many.results()[i]) << i << ", " << threads << " threads";
    }
  }
}

// The gradients of both parts, with the state's handed back, are the whole's.
TEST_P(Slstm, TheStateContinuesASequence) {
  SerialExecutor serial;
  constexpr size_t K = 21, kCut = 4, kLength = 11;
  Problem whole({{kLength}, 1, K, false, true}, 3);
  whole.run(serial);
  const auto put = [](const Floats& from, size_t begin, Floats& to) {
    std::copy_n(from.begin() + std::ptrdiff_t(begin), to.size(), to.begin());
  };
  Problem left({{kCut}, 1, K, false, true}), right({{kLength - kCut}, 1, K, true, true});
  put(whole.gates, 0, left.gates), put(whole.gates, kCut * 4 * K, right.gates);
  put(whole.dh, 0, left.dh), put(whole.dh, kCut * K, right.dh);
  left.run(serial);
  right.state = left.final_state, right.d_final_state = whole.d_final_state;
  right.run(serial);
  left.d_final_state = right.dstate;
  left.run(serial);
  Floats h = left.h, dgates = left.dgates;
  h.insert(h.end(), right.h.begin(), right.h.end());
  dgates.insert(dgates.end(), right.dgates.begin(), right.dgates.end());
  EXPECT_EQ(h, whole.h);
  EXPECT_EQ(dgates, whole.dgates);
  EXPECT_EQ(right.final_state, whole.final_state);
  Floats drecurrent = left.drecurrent;
  for (size_t i = 0; i < drecurrent.size(); ++i) drecurrent[i] += right.drecurrent[i];
  EXPECT_LE(relative_error(drecurrent, to_double(whole.drecurrent)), 1e-6);
}

TEST_P(Slstm, AStateOfZerosIsNone) {
  SerialExecutor serial;
  Problem without({{3, 5}, 2, 10}), with({{3, 5}, 2, 10, true});
  std::fill(with.state.begin(), with.state.end(), 0.0f);
  for (Problem* p : {&without, &with}) {
    for (float& gate : p->gates) gate *= 100;  // far enough below m = 0 for exp to vanish
    p->run(serial);
  }
  EXPECT_EQ(with.h, without.h);
  EXPECT_EQ(with.dgates, without.dgates);
  EXPECT_EQ(with.final_state, without.final_state);
}

TEST_P(Slstm, GatesOfAnySize) {
  SerialExecutor serial;
  for (const float scale : {1.0f, 1e4f, 1e30f}) {
    Problem p({{6, 2}, 2, 12, false, true});
    const float values[] = {0, -1, 1, 1, -1, 0.01f, -0.01f};
    for (size_t i = 0; i < p.gates.size(); ++i) p.gates[i] = scale * values[i * i % 31 % 7];
    p.run(serial);
    for (const Floats* result : p.results())
      for (const float value : *result) ASSERT_TRUE(std::isfinite(value)) << scale;
    if (scale <= 1) {
      EXPECT_LE(relative_error(p.h, Reference(p).h), 1e-6);
    }
    // |c| <= n without a state
    for (const float h : p.h) ASSERT_LE(std::abs(h), 1.000001f);
  }
}

// Nothing but the results asked for, and those unchanged.
TEST_P(Slstm, UnwantedResultsLeaveTheOthersAlone) {
  SerialExecutor serial;
  Problem all({{4, 2}, 2, 7, true}), few = all;
  all.run(serial);
  slstm_forward(few.inputs(), few.h.data(), few.final_state.data(), nullptr, serial);
  EXPECT_EQ(few.h, all.h);
  slstm_backward(few.inputs(), all.h.data(), all.saved.data(),
                 {few.dh.data(), nullptr, few.dgates.data(), nullptr, nullptr}, serial);
  EXPECT_EQ(few.dgates, all.dgates);
}

DP_INSTANTIATE_ON_EVERY_TARGET(Slstm);

TEST(SlstmShapes, NothingGivesNothing) {
  SerialExecutor serial;
  Problem none({{}, 1, 4}), empty({{0, 0}, 1, 4, true, true}), fresh({{0}, 1, 4});
  for (Problem* p : {&none, &empty, &fresh}) {
    p->run(serial);
    EXPECT_EQ(p->drecurrent, Floats(p->recurrent.size(), 0.0f));
  }
  EXPECT_EQ(empty.final_state, empty.state);
  EXPECT_EQ(fresh.final_state, Floats(16, 0.0f));
  for (size_t i = 0; i < empty.dstate.size(); ++i)
    EXPECT_EQ(empty.dstate[i], i / 4 % 4 == 3 ? 0 : empty.d_final_state[i]);
}

}  // namespace
}  // namespace dp::slstm_test
