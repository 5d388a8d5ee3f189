// A group of G factors applied to the state at once. With S before the group and a the gate,
//   e_j = v_j - a S^T k_j - sum_{l<j} (k_j . k_l) u_l,  u_j = beta_j e_j
//   S'  = a S + sum_j k_j u_j^T,   S'^T q = a S^T q + sum_j (k_j . q) u_j
// so one pass over a block of columns finds all S^T k_j and S^T q, and a second one, which finds the
// block still in cache, updates it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/step.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/scratch.h"
#include "kernels/step.h"
#include "kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kMaxGroup = 4;
// Rows of the state that are prefetched: a block's rows are V apart, more than hardware prefetching follows.
constexpr size_t kPrefetchRows = 6;

float dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, size_t n) {
  const hn::CappedTag<float, 16> d;
  const size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

/// A group's rows and the products among them.
struct Group {
  const float* k[kMaxGroup];
  const float* v[kMaxGroup];
  const float* q;  // null unless this is the token's last group
  float beta[kMaxGroup];
  float key_products[kMaxGroup][kMaxGroup];
  float query_products[kMaxGroup];
  float gate, scale;
  size_t K, V;
};

// Columns [column, column + W lanes) of the state.
template <size_t G, size_t W, bool kGated, class D>
HWY_INLINE void step_columns(D d, const Group& g, size_t column, const float* state, float* out,
                             float* o) {
  using Vec = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  Vec products[G + 1][W];  // S^T k_j, and last S^T q
  DP_FOR (j, G + 1)
    DP_FOR (w, W) products[j][w] = hn::Zero(d);
  const float* q = g.q != nullptr ? g.q : g.k[0];
  const float* row = state + column;
  for (size_t a = 0; a < g.K; ++a, row += g.V) {
    for (size_t c = 0; c < W * lanes; c += kLineFloats)
      __builtin_prefetch(row + kPrefetchRows * g.V + c);
    Vec x[G + 1];
    DP_FOR (j, G + 1) x[j] = hn::Set(d, j == G ? q[a] : g.k[j][a]);
    DP_FOR (w, W) {
      const Vec s = hn::LoadU(d, row + w * lanes);
      DP_FOR (j, G + 1) products[j][w] = hn::MulAdd(x[j], s, products[j][w]);
    }
  }
  const Vec gate = hn::Set(d, g.gate);
  Vec u[G][W];
  DP_FOR (j, G) {
    DP_FOR (w, W) {
      Vec e = hn::NegMulAdd(gate, products[j][w], hn::LoadU(d, g.v[j] + column + w * lanes));
      DP_FOR (l, j) e = hn::NegMulAdd(hn::Set(d, g.key_products[j][l]), u[l][w], e);
      u[j][w] = hn::Mul(hn::Set(d, g.beta[j]), e);
    }
  }
  if (g.q != nullptr) {
    DP_FOR (w, W) {
      Vec sum = hn::Mul(gate, products[G][w]);
      DP_FOR (j, G) sum = hn::MulAdd(hn::Set(d, g.query_products[j]), u[j][w], sum);
      hn::StoreU(hn::Mul(hn::Set(d, g.scale), sum), d, o + column + w * lanes);
    }
  }
  if (out == nullptr) return;
  // From the last row back: rows V apart share few sets of the first-level cache, which still has the
  // last ones.
  out += column + g.K * g.V;
  for (size_t a = g.K; a-- > 0;) {
    row -= g.V;
    out -= g.V;
    for (size_t c = 0; c < W * lanes; c += kLineFloats)
      __builtin_prefetch(row - kPrefetchRows * g.V + c);
    Vec keys[G];  // loaded before the stores, which the compiler must assume to overwrite them
    DP_FOR (j, G) keys[j] = hn::Set(d, g.k[j][a]);
    DP_FOR (w, W) {
      Vec s = hn::LoadU(d, row + w * lanes);
      if (kGated) s = hn::Mul(gate, s);
      DP_FOR (j, G) s = hn::MulAdd(keys[j], u[j][w], s);
      hn::StoreU(s, d, out + w * lanes);
    }
  }
}

template <size_t G, bool kGated>
void step_group(const Group& g, size_t begin, size_t end, const float* state, float* out,
                float* o) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> one;
  constexpr size_t W =
      G <= 2 ? 4 : 2;  // (G + 1) W accumulators and W rows of the state in registers
  const size_t lanes = hn::Lanes(d);
  size_t column = begin;
  for (; column + W * lanes <= end; column += W * lanes)
    step_columns<G, W, kGated>(d, g, column, state, out, o);
  for (; column + lanes <= end; column += lanes)
    step_columns<G, 1, kGated>(d, g, column, state, out, o);
  for (; column < end; ++column) step_columns<G, 1, kGated>(one, g, column, state, out, o);
}

template <size_t G>
void step_group(const Group& g, bool gated, size_t begin, size_t end, const float* state,
                float* out, float* o) {
  (gated ? step_group<G, true> : step_group<G, false>)(g, begin, end, state, out, o);
}

void step_head(const DeltaProductInputs& in, const Slice& slice, size_t h, float* o,
               float* state_out) {
  const size_t K = in.K, V = in.V, token = static_cast<size_t>(in.offsets[slice.sequence]);
  const size_t begin = slice.panel_begin * kPanel, end = std::min(V, slice.panel_end * kPanel);
  const size_t head = slice.sequence * in.H + h;
  const size_t gate_row = token * in.H + h;
  const float* state = in.state + head * K * V;
  float* out = state_out == nullptr ? nullptr : state_out + head * K * V;
  Group g;
  g.K = K;
  g.V = V;
  g.scale = in.scale;
  for (size_t first = 0; first < in.N; first += kMaxGroup) {
    const size_t size = std::min(kMaxGroup, in.N - first);
    const bool last = first + size == in.N;
    const bool gated = first == 0 && in.log_gate != nullptr;  // once per token
    g.gate = gated ? std::exp(in.log_gate[gate_row]) : 1.0f;
    g.q = last ? in.q + gate_row * K : nullptr;
    for (size_t j = 0; j < size; ++j) {
      const size_t row = (token * in.N + first + j) * in.H + h;
      g.k[j] = in.k + row * K;
      g.v[j] = in.v + row * V;
      g.beta[j] = in.beta[row];
      for (size_t l = 0; l < j; ++l) g.key_products[j][l] = dot(g.k[j], g.k[l], K);
      if (last) g.query_products[j] = dot(g.k[j], g.q, K);
    }
    switch (size) {
      case 1:
        step_group<1>(g, gated, begin, end, state, out, o + gate_row * V);
        break;
      case 2:
        step_group<2>(g, gated, begin, end, state, out, o + gate_row * V);
        break;
      case 3:
        step_group<3>(g, gated, begin, end, state, out, o + gate_row * V);
        break;
      default:
        step_group<4>(g, gated, begin, end, state, out, o + gate_row * V);
        break;
    }
    state = out;  // the next group starts where this one ended
  }
}

void step_forward_target(const DeltaProductInputs& in, const Slice& slice, float* o,
                         float* state_out) {
  for (size_t h = slice.head_begin; h < slice.head_end; ++h) step_head(in, slice, h, o, state_out);
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(step_forward_target);
void step_forward(const DeltaProductInputs& inputs, const Slice& slice, float* o,
                  float* state_out) {
  HWY_DYNAMIC_DISPATCH(step_forward_target)(inputs, slice, o, state_out);
}
}  // namespace dp
#endif
