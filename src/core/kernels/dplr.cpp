// One step after another, on the transposed state [V,K]: its rows evolve independently, so a few of them go
// through a chunk of tokens while they stay in registers and the first-level cache. Vectors run along K, where
// all but two of the gradients have no sums across lanes.
#include "kernels/dplr.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dplr.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/scratch.h"
#include "kernels/unroll.h"
#include "kernels/vector_loops-inl.h"

#ifndef DP_KERNELS_DPLR_SHARED
#define DP_KERNELS_DPLR_SHARED
namespace dp {
namespace {

constexpr size_t kRows = 4;         // of the transposed state at a time
constexpr size_t kChunkSteps = 16;  // between two saved states

size_t chunk_tokens(const DplrInputs& in) { return std::max<size_t>(1, kChunkSteps / in.N); }

// What one head of one sequence reads and writes; tokens are counted from the sequence's first.
struct DplrHead {
  DplrHead(const DplrInputs& inputs, size_t sequence, size_t h)
      : in(inputs),
        sequence(sequence),
        h(h),
        first(inputs.first_token(sequence)),
        tokens(inputs.length(sequence)) {}

  size_t query(size_t t) const { return ((first + t) * in.H + h) * in.K; }
  size_t output(size_t t) const { return ((first + t) * in.H + h) * in.V; }
  /// Of step j of all steps, N per token.
  size_t key(size_t j) const { return ((first * in.N + j) * in.H + h) * in.K; }
  size_t value(size_t j) const { return ((first * in.N + j) * in.H + h) * in.V; }
  size_t state() const { return (sequence * in.H + h) * in.K * in.V; }
  /// Where the state before a chunk is saved, transposed.
  size_t saved(size_t chunk) const {
    // Sequences before this one have at most one chunk each that is not full.
    const size_t chunks_before = first / chunk_tokens(in) + sequence;
    return ((chunks_before + chunk) * in.H + h) * in.K * in.V;
  }

  const DplrInputs& in;
  size_t sequence, h, first, tokens;
};

void transpose(const float* from, size_t rows, size_t columns, float* to) {
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

}  // namespace
}  // namespace dp
#endif

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// R rows of the state through one step: `next` may be `rows`. With a query, o = the new rows times it.
template <size_t R, bool kRankOne>
HWY_INLINE void step_rows(const DplrHead& head, size_t j, const float* values, const float* rows,
                          float* next, float (&u)[R], const float* query, float (&o)[R]) {
  const DplrInputs& in = head.in;
  const size_t K = in.K, at = head.key(j);
  const float* HWY_RESTRICT w = in.w + at;
  const float* HWY_RESTRICT k = in.k + at;
  const float* HWY_RESTRICT a = kRankOne ? in.a + at : nullptr;
  const float* HWY_RESTRICT b = kRankOne ? in.b + at : nullptr;
  if constexpr (kRankOne) {
    sum_vectors<1>(K, u, [&](auto d, size_t i, auto& sum) HWY_ATTR {
      const auto bv = hn::LoadU(d, b + i);
      DP_FOR (r, R) sum[r] = hn::MulAdd(bv, hn::LoadU(d, rows + r * K + i), sum[r]);
    });
  }
  const auto moved = [&](auto d, size_t i, size_t r) HWY_ATTR {
    auto x = hn::Mul(hn::LoadU(d, w + i), hn::LoadU(d, rows + r * K + i));
    if constexpr (kRankOne) x = hn::MulAdd(hn::LoadU(d, a + i), hn::Set(d, u[r]), x);
    x = hn::MulAdd(hn::LoadU(d, k + i), hn::Set(d, values[r]), x);
    hn::StoreU(x, d, next + r * K + i);
    return x;
  };
  if (query == nullptr) {
    for_vectors(K, [&](auto d, size_t i) HWY_ATTR {
      DP_FOR (r, R) moved(d, i, r);
    });
    return;
  }
  sum_vectors<1>(K, o, [&](auto d, size_t i, auto& sum) HWY_ATTR {
    const auto qv = hn::LoadU(d, query + i);
    DP_FOR (r, R) sum[r] = hn::MulAdd(qv, moved(d, i, r), sum[r]);
  });
}

template <size_t R, bool kRankOne>
void forward_chunk(const DplrHead& head, size_t begin, size_t end, size_t row, float* rows,
                   float* out) {
  const DplrInputs& in = head.in;
  for (size_t t = begin; t < end; ++t) {
    for (size_t n = 0; n < in.N; ++n) {
      const size_t j = t * in.N + n;
      const bool last = n + 1 == in.N;
      float u[R], o[R] = {};
      step_rows<R, kRankOne>(head, j, in.v + head.value(j) + row, rows, rows, u,
                             last ? in.q + head.query(t) : nullptr, o);
      if (last) std::copy(o, o + R, out + head.output(t) + row);
    }
  }
}

// `state` [V,K] is the state before the sequence and becomes that after it.
template <bool kRankOne>
void forward_head(const DplrHead& head, float* state, float* out, float* saved) {
  const size_t V = head.in.V, K = head.in.K, C = chunk_tokens(head.in);
  for (size_t begin = 0; begin < head.tokens; begin += C) {
    const size_t end = std::min(head.tokens, begin + C);
    if (saved) std::copy(state, state + V * K, saved + head.saved(begin / C));
    size_t row = 0;
    for (; row + kRows <= V; row += kRows)
      forward_chunk<kRows, kRankOne>(head, begin, end, row, state + row * K, out);
    for (; row < V; ++row) forward_chunk<1, kRankOne>(head, begin, end, row, state + row * K, out);
  }
}

// Gradients of a chunk's steps, in steps from the chunk's first: [steps,K] each, dq [tokens,K].
struct ChunkSums {
  float *dq, *dw, *dk, *da, *db;
};

// d = dH, the gradient of the state after the step, gives with u = b^T H and H the state before it:
//   dv = d^T k;  du = d^T a;  dk = d v;  da = d u;  dw = rowsum(d * H);  db = H du;  dH = w d + b du^T
template <size_t R, bool kRankOne>
HWY_INLINE void step_gradients(const DplrHead& head, size_t j, const float* values,
                               const float* before, const float (&u)[R], float* d_rows,
                               float* dvalues, size_t step, const ChunkSums& sums) {
  const DplrInputs& in = head.in;
  const size_t K = in.K, at = head.key(j);
  const float* HWY_RESTRICT w = in.w + at;
  const float* HWY_RESTRICT k = in.k + at;
  const float* HWY_RESTRICT a = kRankOne ? in.a + at : nullptr;
  const float* HWY_RESTRICT b = kRankOne ? in.b + at : nullptr;
  float totals[2 * R];  // dv, du
  sum_vectors<1>(K, totals, [&](auto d, size_t i, auto& sum) HWY_ATTR {
    const auto kv = hn::LoadU(d, k + i);
    DP_FOR (r, R) {
      const auto dh = hn::LoadU(d, d_rows + r * K + i);
      sum[r] = hn::MulAdd(kv, dh, sum[r]);
      if constexpr (kRankOne) sum[R + r] = hn::MulAdd(hn::LoadU(d, a + i), dh, sum[R + r]);
    }
  });
  std::copy(totals, totals + R, dvalues);
  const float* du = totals + R;
  float* HWY_RESTRICT dw = sums.dw + step * K;
  float* HWY_RESTRICT dk = sums.dk + step * K;
  float* HWY_RESTRICT da = kRankOne ? sums.da + step * K : nullptr;
  float* HWY_RESTRICT db = kRankOne ? sums.db + step * K : nullptr;
  for_vectors(K, [&](auto d, size_t i) HWY_ATTR {
    const auto wv = hn::LoadU(d, w + i);
    auto dwv = hn::LoadU(d, dw + i), dkv = hn::LoadU(d, dk + i);
    auto dav = hn::Zero(d), dbv = hn::Zero(d), bv = hn::Zero(d);
    if constexpr (kRankOne) {
      dav = hn::LoadU(d, da + i), dbv = hn::LoadU(d, db + i), bv = hn::LoadU(d, b + i);
    }
    DP_FOR (r, R) {
      float* dh_at = d_rows + r * K + i;
      const auto dh = hn::LoadU(d, dh_at), h = hn::LoadU(d, before + r * K + i);
      dwv = hn::MulAdd(dh, h, dwv);
      dkv = hn::MulAdd(dh, hn::Set(d, values[r]), dkv);
      auto previous = hn::Mul(wv, dh);
      if constexpr (kRankOne) {
        const auto duv = hn::Set(d, du[r]);
        dav = hn::MulAdd(dh, hn::Set(d, u[r]), dav);
        dbv = hn::MulAdd(h, duv, dbv);
        previous = hn::MulAdd(bv, duv, previous);
      }
      hn::StoreU(previous, d, dh_at);
    }
    hn::StoreU(dwv, d, dw + i);
    hn::StoreU(dkv, d, dk + i);
    if constexpr (kRankOne) {
      hn::StoreU(dav, d, da + i);
      hn::StoreU(dbv, d, db + i);
    }
  });
}

// `states` has room for the rows before the chunk, given, and after each of its steps; `us` for a number per step and row.
// d_rows [R,K] is the gradient of the rows after the chunk and becomes that before it.
template <size_t R, bool kRankOne>
void backward_chunk(const DplrHead& head, size_t begin, size_t end, size_t row, float* states,
                    float* us, float* d_rows, const DplrGradients& gradients,
                    const ChunkSums& sums) {
  const DplrInputs& in = head.in;
  const size_t K = in.K, N = in.N, steps = (end - begin) * N;
  auto* u = reinterpret_cast<float(*)[R]>(us);
  float unused[R] = {};
  for (size_t step = 0; step < steps; ++step) {
    const size_t j = begin * N + step;
    step_rows<R, kRankOne>(head, j, in.v + head.value(j) + row, states + step * R * K,
                           states + (step + 1) * R * K, u[step], nullptr, unused);
  }
  for (size_t step = steps; step-- > 0;) {
    const size_t j = begin * N + step, t = begin + step / N;
    if (step % N + 1 == N) {
      const float* HWY_RESTRICT q = in.q + head.query(t);
      const float* d_o = gradients.d_o + head.output(t) + row;
      const float* after = states + (step + 1) * R * K;
      float* HWY_RESTRICT dq = sums.dq + (t - begin) * K;
      for_vectors(K, [&](auto d, size_t i) HWY_ATTR {
        const auto qv = hn::LoadU(d, q + i);
        auto dqv = hn::LoadU(d, dq + i);
        DP_FOR (r, R) {
          const auto dov = hn::Set(d, d_o[r]);
          float* dh = d_rows + r * K + i;
          dqv = hn::MulAdd(hn::LoadU(d, after + r * K + i), dov, dqv);
          hn::StoreU(hn::MulAdd(qv, dov, hn::LoadU(d, dh)), d, dh);
        }
        hn::StoreU(dqv, d, dq + i);
      });
    }
    step_gradients<R, kRankOne>(head, j, in.v + head.value(j) + row, states + step * R * K, u[step],
                                d_rows, gradients.dv + head.value(j) + row, step, sums);
  }
}

// d_state [V,K] is the gradient of the final state and becomes that of the first.
template <bool kRankOne>
void backward_head(const DplrHead& head, const float* saved, float* d_state,
                   const DplrGradients& gradients) {
  const DplrInputs& in = head.in;
  const size_t V = in.V, K = in.K, C = chunk_tokens(in), steps = C * in.N;
  float *states, *us;
  ChunkSums sums{};
  const Scratch scratch([&](ScratchLayout& layout) {
    states = layout.take((steps + 1) * kRows * K);
    us = layout.take(steps * kRows);
    sums.dq = layout.take(C * K);
    for (float** sum : {&sums.dw, &sums.dk, &sums.da, &sums.db}) *sum = layout.take(steps * K);
  });
  for (size_t chunk = ceil_div(head.tokens, C); chunk-- > 0;) {
    const size_t begin = chunk * C, end = std::min(head.tokens, begin + C);
    std::fill(sums.dq, sums.dq + C * K, 0.0f);
    for (float* sum : {sums.dw, sums.dk, sums.da, sums.db}) std::fill(sum, sum + steps * K, 0.0f);
    const float* before = saved + head.saved(chunk);
    size_t row = 0;
    for (; row + kRows <= V; row += kRows) {
      std::copy(before + row * K, before + (row + kRows) * K, states);
      backward_chunk<kRows, kRankOne>(head, begin, end, row, states, us, d_state + row * K,
                                      gradients, sums);
    }
    for (; row < V; ++row) {
      std::copy(before + row * K, before + (row + 1) * K, states);
      backward_chunk<1, kRankOne>(head, begin, end, row, states, us, d_state + row * K, gradients,
                                  sums);
    }
    for (size_t t = begin; t < end; ++t)
      std::copy_n(sums.dq + (t - begin) * K, K, gradients.dq + head.query(t));
    for (size_t step = 0; step < (end - begin) * in.N; ++step) {
      const size_t at = head.key(begin * in.N + step);
      std::copy_n(sums.dw + step * K, K, gradients.dw + at);
      std::copy_n(sums.dk + step * K, K, gradients.dk + at);
      if (!kRankOne) continue;
      std::copy_n(sums.da + step * K, K, gradients.da + at);
      std::copy_n(sums.db + step * K, K, gradients.db + at);
    }
  }
}

void forward_head_target(const DplrHead& head, float* state, float* out, float* saved) {
  (head.in.a ? forward_head<true> : forward_head<false>)(head, state, out, saved);
}

void backward_head_target(const DplrHead& head, const float* saved, float* d_state,
                          const DplrGradients& gradients) {
  (head.in.a ? backward_head<true> : backward_head<false>)(head, saved, d_state, gradients);
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
namespace {

HWY_EXPORT(forward_head_target);
HWY_EXPORT(backward_head_target);

// `work` gets each head with its transposed state, taken from [S,H,K,V] or zero.
template <class Work>
void for_heads(const DplrInputs& in, const float* states, Executor& executor, const Work& work) {
  executor.run(in.num_sequences * in.H, [&](size_t task) {
    const DplrHead head(in, task / in.H, task % in.H);
    const Scratch scratch(in.K * in.V);
    float* const state = scratch.data();
    if (states)
      transpose(states + head.state(), in.K, in.V, state);
    else
      std::fill(state, state + in.K * in.V, 0.0f);
    work(head, state);
  });
}

}  // namespace

size_t dplr_saved_size(const DplrInputs& in) {
  return (in.num_tokens() / chunk_tokens(in) + in.num_sequences) * in.H * in.K * in.V;
}

void dplr_forward(const DplrInputs& in, float* o, float* final_state, float* saved,
                  Executor& executor) {
  for_heads(in, in.state, executor, [&](const DplrHead& head, float* state) {
    HWY_DYNAMIC_DISPATCH(forward_head_target)(head, state, o, saved);
    transpose(state, in.V, in.K, final_state + head.state());
  });
}

void dplr_backward(const DplrInputs& in, const float* saved, const DplrGradients& gradients,
                   Executor& executor) {
  for_heads(in, gradients.d_final_state, executor, [&](const DplrHead& head, float* d_state) {
    HWY_DYNAMIC_DISPATCH(backward_head_target)(head, saved, d_state, gradients);
    if (gradients.dstate) transpose(d_state, in.V, in.K, gradients.dstate + head.state());
  });
}

}  // namespace dp
#endif
