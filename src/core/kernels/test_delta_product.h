// Random problems for tests of the delta-product kernels.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/delta_product.h"

namespace dp::delta_product_test {

using Floats = std::vector<float>;
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// An array that begins so many floats after the start of a cache line.
class Array {
 public:
  Array(const Floats& values, size_t misalignment)
      : size_(values.size()), memory_(values.size() + 2 * kLine) {
    const size_t start = reinterpret_cast<uintptr_t>(memory_.data()) / sizeof(float) % kLine;
    begin_ = kLine - start + misalignment;
    std::copy(values.begin(), values.end(), data());
  }
  float* data() { return memory_.data() + begin_; }
  Floats values() { return Floats(data(), data() + size_); }

 private:
  static constexpr size_t kLine = 64 / sizeof(float);
  size_t size_, begin_;
  Floats memory_;
};

struct Shape {
  std::vector<int64_t> lengths;
  size_t N, H, K, V;
  bool gated = false, state = false;
};

inline std::string name(const Shape& s) {
  std::string lengths;
  for (const int64_t length : s.lengths) lengths += std::to_string(length) + " ";
  return "lengths " + lengths + "N=" + std::to_string(s.N) + " H=" + std::to_string(s.H) +
         " K=" + std::to_string(s.K) + " V=" + std::to_string(s.V) + (s.gated ? " gated" : "") +
         (s.state ? " state" : "");
}

// Inputs, outputs and gradients of one problem, with the pointers that the kernels take.
struct Problem {
  explicit Problem(const Shape& s, unsigned seed = 1) : shape(s), rng(seed) {
    for (const int64_t length : s.lengths) offsets.push_back(offsets.back() + length);
    tokens = static_cast<size_t>(offsets.back());
    q = normal(tokens * s.H * s.K);
    k = normal(tokens * s.N * s.H * s.K);
    v = normal(tokens * s.N * s.H * s.V);
    for (size_t row = 0; row < k.size(); row += s.K) normalise(&k[row], s.K);
    beta = normal(tokens * s.N * s.H);
    for (float& b : beta) b = 2 / (1 + std::exp(-3 * b));
    const float special[] = {0, 1, 2};
    for (size_t i = 0; i < beta.size(); i += 5) beta[i] = special[i / 5 % 3];
    if (s.gated) {
      log_gate = normal(tokens * s.H);
      for (float& g : log_gate) g = -0.3f * g * g;
      const float extremes[] = {0, -30, -1e4f, 0};
      for (size_t i = 0; i < log_gate.size(); i += 7) log_gate[i] = extremes[i / 7 % 4];
    }
    const size_t state_size = s.lengths.size() * s.H * s.K * s.V;
    if (s.state) state = normal(state_size);
    d_o = normal(tokens * s.H * s.V);
    d_final = normal(state_size);
    o.assign(d_o.size(), kNaN);
    final_state.assign(state_size, kNaN);
    dq.assign(q.size(), kNaN);
    dk.assign(k.size(), kNaN);
    dv.assign(v.size(), kNaN);
    dbeta.assign(beta.size(), kNaN);
    dlog_gate.assign(log_gate.size(), kNaN);
    dstate.assign(state_size, kNaN);
  }

  DeltaProductInputs inputs() const {
    DeltaProductInputs in;
    in.num_sequences = shape.lengths.size(), in.offsets = offsets.data();
    in.N = shape.N, in.H = shape.H, in.K = shape.K, in.V = shape.V;
    in.scale = scale, in.normalise = normalise_qk;
    in.q = q.data(), in.k = k.data(), in.v = v.data(), in.beta = beta.data();
    in.log_gate = shape.gated ? log_gate.data() : nullptr;
    in.state = shape.state ? state.data() : nullptr;
    return in;
  }

  void forward(Executor& executor) {
    delta_product_forward(inputs(), o.data(), final_state.data(), nullptr, executor);
  }

  void forward_backward(Executor& executor) {
    Floats saved(delta_product_saved_size(inputs()), kNaN);
    delta_product_forward(inputs(), o.data(), final_state.data(), saved.data(), executor);
    delta_product_backward(inputs(), saved.data(), gradients(), executor);
  }

  DeltaProductGradients gradients() {
    DeltaProductGradients g;
    g.d_o = d_o.data(), g.d_final_state = d_final.data();
    g.dq = dq.data(), g.dk = dk.data(), g.dv = dv.data();
    g.dbeta = dbeta.data(), g.dlog_gate = shape.gated ? dlog_gate.data() : nullptr;
    g.dstate = dstate.data();
    return g;
  }

  Floats normal(size_t size) {
    std::normal_distribution<float> distribution;
    Floats out(size);
    for (float& x : out) x = distribution(rng);
    return out;
  }

  static void normalise(float* x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += double(x[i]) * x[i];
    for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(x[i] / std::sqrt(sum));
  }

  Shape shape;
  std::mt19937 rng;
  std::vector<int64_t> offsets{0};
  size_t tokens;
  float scale = 0.7f;
  bool normalise_qk = false;
  Floats q, k, v, beta, log_gate, state, d_o, d_final;
  Floats o, final_state, dq, dk, dv, dbeta, dlog_gate, dstate;
};

}  // namespace dp::delta_product_test
