// The kernels against the recurrence as written, in double, and gradients against its finite differences.
#include "kernels/dplr.h"

#include "kernels/test_arrays.h"

namespace dp::dplr_test {
namespace {

struct Shape {
  std::vector<int64_t> lengths;
  size_t N, H, K, V;
  bool rank_one, with_state;
};

// All arrays by name, laid out as DplrInputs has them.
struct Problem {
  explicit Problem(const Shape& shape) : shape(shape), offsets{0} {
    for (const int64_t length : shape.lengths) offsets.push_back(offsets.back() + length);
    const auto [lengths, N, H, K, V, rank_one, with_state] = shape;
    const auto T = static_cast<size_t>(offsets.back()), S = lengths.size();
    const float small = 1 / std::sqrt(static_cast<float>(K));
    q = normal_floats(T * H * K, 1, small), w = normal_floats(T * N * H * K, 2);
    for (float& x : w) x = 1 / (1 + std::exp(-x));
    k = normal_floats(T * N * H * K, 3, small), v = normal_floats(T * N * H * V, 4);
    if (rank_one) {
      a = normal_floats(T * N * H * K, 5, small);
      b = normal_floats(T * N * H * K, 6, small);
    }
    if (with_state) state = normal_floats(S * H * K * V, 7);
    d_o = normal_floats(T * H * V, 8), d_final = normal_floats(S * H * K * V, 9);
  }

  DplrInputs inputs() const {
    const auto pointer = [](const Floats& x) { return x.empty() ? nullptr : x.data(); };
    return {shape.lengths.size(),
            offsets.data(),
            shape.N,
            shape.H,
            shape.K,
            shape.V,
            q.data(),
            w.data(),
            k.data(),
            v.data(),
            pointer(a),
            pointer(b),
            pointer(state)};
  }

  Shape shape;
  std::vector<int64_t> offsets;
  Floats q, w, k, v, a, b, state, d_o, d_final;
};

struct Result {
  Floats o, final_state, dq, dw, dk, dv, da, db, dstate;
};

Result run(const Problem& p, Executor& executor) {
  const DplrInputs in = p.inputs();
  Result r;
  r.o.assign(p.d_o.size(), kNaN), r.final_state.assign(p.d_final.size(), kNaN);
  Floats saved(dplr_saved_size(in), kNaN);
  dplr_forward(in, r.o.data(), r.final_state.data(), saved.data(), executor);
  r.dq.assign(p.q.size(), kNaN), r.dw.assign(p.w.size(), kNaN), r.dk.assign(p.k.size(), kNaN);
  r.dv.assign(p.v.size(), kNaN), r.da.assign(p.a.size(), kNaN), r.db.assign(p.b.size(), kNaN);
  r.dstate.assign(p.state.size(), kNaN);
  DplrGradients gradients;
  gradients.d_o = p.d_o.data(), gradients.d_final_state = p.d_final.data();
  gradients.dq = r.dq.data(), gradients.dw = r.dw.data(), gradients.dk = r.dk.data();
  gradients.dv = r.dv.data(), gradients.da = r.da.data(), gradients.db = r.db.data();
  gradients.dstate = p.state.empty() ? nullptr : r.dstate.data();
  dplr_backward(in, saved.data(), gradients, executor);
  return r;
}

// H <- diag(w) H + a (b^T H) + k v^T with whole matrices.
struct Reference {
  explicit Reference(const Problem& p)
      : q(to_double(p.q)),
        w(to_double(p.w)),
        k(to_double(p.k)),
        v(to_double(p.v)),
        a(to_double(p.a)),
        b(to_double(p.b)),
        state(to_double(p.state)),
        p(p) {}

  void compute() {
    const auto [lengths, N, H, K, V, rank_one, with_state] = p.shape;
    o.assign(p.d_o.size(), 0), final_state.assign(p.d_final.size(), 0);
    for (size_t s = 0; s < lengths.size(); ++s)
      for (size_t h = 0; h < H; ++h) {
        Doubles m(K * V, 0);
        if (with_state) std::copy_n(&state[(s * H + h) * K * V], K * V, m.begin());
        for (auto t = static_cast<size_t>(p.offsets[s]); t < static_cast<size_t>(p.offsets[s + 1]);
             ++t) {
          for (size_t n = 0; n < N; ++n) {
            const size_t key = ((t * N + n) * H + h) * K, value = ((t * N + n) * H + h) * V;
            Doubles next(K * V);
            for (size_t c = 0; c < V; ++c) {
              double u = 0;
              for (size_t i = 0; rank_one && i < K; ++i) u += b[key + i] * m[i * V + c];
              for (size_t i = 0; i < K; ++i)
                next[i * V + c] = w[key + i] * m[i * V + c] + (rank_one ? a[key + i] * u : 0) +
                                  k[key + i] * v[value + c];
            }
            m = next;
          }
          for (size_t c = 0; c < V; ++c)
            for (size_t i = 0; i < K; ++i)
              o[(t * H + h) * V + c] += q[(t * H + h) * K + i] * m[i * V + c];
        }
        std::copy(m.begin(), m.end(), &final_state[(s * H + h) * K * V]);
      }
  }

  double loss() {
    compute();
    double sum = 0;
    for (size_t i = 0; i < o.size(); ++i) sum += o[i] * p.d_o[i];
    for (size_t i = 0; i < final_state.size(); ++i) sum += final_state[i] * p.d_final[i];
    return sum;
  }

  Doubles gradient(Doubles& of) {
    Doubles result;
    for (double& x : of) {
      const double old = x, step = 1e-4;
      x = old + step;
      const double above = loss();
      x = old - step;
      result.push_back((above - loss()) / (2 * step));
      x = old;
    }
    return result;
  }

  Doubles q, w, k, v, a, b, state, o, final_state;
  const Problem& p;
};

using Dplr = PointwiseOnEveryTarget;

TEST_P(Dplr, ForwardMatchesTheRecurrence) {
  SerialExecutor serial;
  for (const Shape& shape : {Shape{{70}, 1, 2, 32, 32, true, true},
                             {{17, 1, 40}, 3, 1, 19, 6, true, false},
                             {{33, 5}, 1, 3, 8, 9, false, true},
                             {{3}, 20, 1, 5, 5, true, false},
                             {{16, 16}, 2, 1, 64, 3, false, false}}) {
    const Problem p(shape);
    const Result got = run(p, serial);
    Reference want(p);
    want.compute();
    EXPECT_LE(relative_error(got.o, want.o), 2e-6);
    EXPECT_LE(relative_error(got.final_state, want.final_state), 2e-6);
  }
}

TEST_P(Dplr, GradientsMatchFiniteDifferences) {
  SerialExecutor serial;
  for (const Shape& shape : {Shape{{5, 19}, 1, 1, 9, 5, true, true},
                             {{18, 1}, 2, 2, 3, 2, true, false},
                             {{20}, 1, 1, 8, 6, false, true},
                             {{2}, 17, 1, 2, 1, true, true},
                             {{7}, 1, 2, 1, 1, false, false}}) {
    const Problem p(shape);
    const Result got = run(p, serial);
    Reference want(p);
    EXPECT_LE(relative_error(got.dq, want.gradient(want.q)), 3e-6);
    EXPECT_LE(relative_error(got.dw, want.gradient(want.w)), 3e-6);
    EXPECT_LE(relative_error(got.dk, want.gradient(want.k)), 3e-6);
    EXPECT_LE(relative_error(got.dv, want.gradient(want.v)), 3e-6);
    EXPECT_LE(relative_error(got.da, want.gradient(want.a)), 3e-6);
    EXPECT_LE(relative_error(got.db, want.gradient(want.b)), 3e-6);
    EXPECT_LE(relative_error(got.dstate, want.gradient(want.state)), 3e-6);
  }
}

TEST_P(Dplr, ClosedGatesForgetAndStayFinite) {
  Problem p(Shape{{40}, 1, 1, 8, 8, false, true});
  std::fill(p.w.begin(), p.w.end(), 0.0f);
  std::fill(p.state.begin(), p.state.end(), 1e30f);
  SerialExecutor serial;
  const Result got = run(p, serial);
  Reference want(p);
  want.compute();
  EXPECT_LE(relative_error(got.o, want.o), 2e-6);
  for (const float x : got.dw) EXPECT_TRUE(std::isfinite(x));
}

TEST_P(Dplr, ThreadsChangeNothing) {
  const Problem p(Shape{{50, 3, 20}, 2, 3, 16, 12, true, true});
  SerialExecutor serial;
  ThreadPool pool(3);
  const Result one = run(p, serial), many = run(p, pool);
  EXPECT_EQ(one.o, many.o);
  EXPECT_EQ(one.final_state, many.final_state);
  EXPECT_EQ(one.dw, many.dw);
  EXPECT_EQ(one.db, many.db);
  EXPECT_EQ(one.dstate, many.dstate);
}

DP_INSTANTIATE_ON_EVERY_TARGET(Dplr);

}  // namespace
}  // namespace dp::dplr_test
