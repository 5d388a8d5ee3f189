#include "kernels/reference.h"

#include <cmath>

namespace dp {
namespace {

using Matrix = std::vector<double>;  // [K,V]

double decay(const ReferenceInputs& in, size_t t) {
  return in.log_gate.empty() ? 1.0 : std::exp(in.log_gate[t]);
}

// out[v] = sum_k S[k,v] x[k]
std::vector<double> transposed_times(const Matrix& S, const double* x, size_t K, size_t V) {
  std::vector<double> out(V, 0.0);
  for (size_t a = 0; a < K; ++a)
    for (size_t b = 0; b < V; ++b) out[b] += S[a * V + b] * x[a];
  return out;
}

// One factor: S += beta k (v - S^T k)^T. Returns the prediction error v - S^T k.
std::vector<double> update(Matrix& S, const double* k, const double* v, double beta, size_t K,
                           size_t V) {
  std::vector<double> error = transposed_times(S, k, K, V);
  for (size_t b = 0; b < V; ++b) error[b] = v[b] - error[b];
  for (size_t a = 0; a < K; ++a)
    for (size_t b = 0; b < V; ++b) S[a * V + b] += beta * k[a] * error[b];
  return error;
}

Matrix initial_state(const ReferenceInputs& in) {
  return in.state.empty() ? Matrix(in.K * in.V, 0.0) : in.state;
}

}  // namespace

ReferenceOutputs reference_forward(const ReferenceInputs& in) {
  ReferenceOutputs out{std::vector<double>(in.T * in.V), initial_state(in)};
  for (size_t t = 0; t < in.T; ++t) {
    for (double& s : out.state) s *= decay(in, t);
    for (size_t i = t * in.N; i < (t + 1) * in.N; ++i)
      update(out.state, &in.k[i * in.K], &in.v[i * in.V], in.beta[i], in.K, in.V);
    const auto o = transposed_times(out.state, &in.q[t * in.K], in.K, in.V);
    for (size_t b = 0; b < in.V; ++b) out.o[t * in.V + b] = in.scale * o[b];
  }
  return out;
}

ReferenceInputs reference_backward(const ReferenceInputs& in, const std::vector<double>& d_o,
                                   const std::vector<double>& d_state) {
  const size_t K = in.K, V = in.V, steps = in.T * in.N;
  // Every state, kept: before each token's gate, and before and after each factor.
  std::vector<Matrix> before_gate(in.T), before(steps), after(steps);
  std::vector<std::vector<double>> error(steps);
  Matrix S = initial_state(in);
  for (size_t t = 0; t < in.T; ++t) {
    before_gate[t] = S;
    for (double& s : S) s *= decay(in, t);
    for (size_t i = t * in.N; i < (t + 1) * in.N; ++i) {
      before[i] = S;
      error[i] = update(S, &in.k[i * K], &in.v[i * V], in.beta[i], K, V);
      after[i] = S;
    }
  }

  ReferenceInputs d = in;
  d.state.assign(K * V, 0.0);
  Matrix dS = d_state.empty() ? Matrix(K * V, 0.0) : d_state;
  for (size_t t = in.T; t-- > 0;) {
    // o = scale S^T q
    const Matrix& last = after[(t + 1) * in.N - 1];
    for (size_t a = 0; a < K; ++a) {
      double dq = 0;
      for (size_t b = 0; b < V; ++b) {
        dq += last[a * V + b] * d_o[t * V + b];
        dS[a * V + b] += in.scale * in.q[t * K + a] * d_o[t * V + b];
      }
      d.q[t * K + a] = in.scale * dq;
    }
    // S' = S + beta k e^T with e = v - S^T k
    for (size_t i = (t + 1) * in.N; i-- > t * in.N;) {
      const double* k = &in.k[i * K];
      const std::vector<double> du = transposed_times(dS, k, K, V);  // gradient of beta e
      double dbeta = 0;
      for (size_t b = 0; b < V; ++b) dbeta += du[b] * error[i][b];
      d.beta[i] = dbeta;
      for (size_t b = 0; b < V; ++b) d.v[i * V + b] = in.beta[i] * du[b];
      for (size_t a = 0; a < K; ++a) {
        double dk = 0;
        for (size_t b = 0; b < V; ++b) {
          dk += in.beta[i] * (dS[a * V + b] * error[i][b] - before[i][a * V + b] * du[b]);
          dS[a * V + b] -= in.beta[i] * k[a] * du[b];
        }
        d.k[i * K + a] = dk;
      }
    }
    // S' = exp(log_gate) S
    double d_gate = 0;
    for (size_t x = 0; x < K * V; ++x) {
      d_gate += dS[x] * before_gate[t][x];
      dS[x] *= decay(in, t);
    }
    if (!in.log_gate.empty()) d.log_gate[t] = d_gate * decay(in, t);
  }
  d.state = dS;
  return d;
}

}  // namespace dp
