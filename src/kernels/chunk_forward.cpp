// Forward pass of one head, chunk by chunk. With S the state before the chunk, L the strictly lower
// and P the lower triangle of decayed products of keys with keys and of queries with keys:
//   E = V - K S - L U,  U = diag(beta) E   by forward substitution, one register tile at a time
//   O = Q S + P U,      S' = S + K^T U
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk_forward.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "kernels/chunk-inl.h"
#include "kernels/chunk_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {

class ForwardHead {
 public:
  ForwardHead(const DeltaProductInputs& inputs, const ChunkPlan& plan, const HeadSlice& slice)
      : scratch_(scratch_size(inputs, plan.C)),
        chunk_(inputs, slice.sequence, slice.head, plan.C, scratch_),
        keys_to_keys_(scratch_.take(plan.C * plan.C)),
        keys_to_queries_(scratch_.take(plan.C * chunk_.Q)),
        decays_(scratch_.take(plan.C * std::max(plan.C, chunk_.Q))),
        updates_(scratch_.take(plan.C * kPanel)),
        values_(scratch_.take(plan.C * kPanel)) {}

  void run(const ChunkPlan& plan, const HeadSlice& slice, float* o, float* state,
           const SavedHead<float>& saved) {
    const DeltaProductInputs& in = chunk_.in;
    const size_t chunks = plan.num_chunks(slice.sequence);
    const size_t head = slice.sequence * in.H + slice.head, size = in.K * in.V;
    const size_t panel_size = in.K * kPanel;
    // With `saved`, the state moves through its slots, one per chunk, and ends in `last`.
    Scratch last_memory(plan.state_size);
    float* const last = last_memory.take(plan.state_size);
    float* const first = saved.states != nullptr && chunks > 0 ? saved.states : last;
    pack_state(in.state == nullptr ? nullptr : in.state + head * size, in.K, in.V, slice.panel_begin,
               slice.panel_end, first);
    for (size_t c = 0; c < chunks; ++c) {
      chunk_.prepare(c);
      find_triangles();
      if (chunk_.gated()) scale_keys_to_end();
      float* before = saved.states != nullptr ? saved.states + c * plan.state_size : last;
      float* after = saved.states != nullptr && c + 1 < chunks ? before + plan.state_size : last;
      for (size_t p = slice.panel_begin; p < slice.panel_end; ++p) {
        float* errors = saved.errors == nullptr
                            ? nullptr
                            : saved.errors + c * plan.errors_size + p * plan.C * kPanel;
        find_updates(before + p * panel_size, p, errors);
        read_out(before + p * panel_size, p, o);
        advance(before + p * panel_size, after + p * panel_size);
      }
    }
    if (state != nullptr)
      unpack_state(last, in.K, in.V, slice.panel_begin, slice.panel_end, state + head * size);
  }

 private:
  static size_t scratch_size(const DeltaProductInputs& in, size_t C) {
    const size_t Q = round_up((C + in.N - 1) / in.N, kPanel);
    return Chunk::scratch_size(in, C) + Scratch::rounded(C * C) + Scratch::rounded(C * Q) +
           Scratch::rounded(C * std::max(C, Q)) + 2 * Scratch::rounded(C * kPanel);
  }

  // keys_to_keys[j][i] = decay k_j . k_i for i > j (elsewhere unspecified), keys_to_queries[j][r]
  // = decay k_j . q_r for queries that see step j.
  void find_triangles() {
    const size_t C = chunk_.C, Q = chunk_.Q;
    products(chunk_.keys_t, C, chunk_.padded_steps(), keys_to_keys_,
             [](size_t j, size_t column) { return column + kPanel > j + 1; });
    products(chunk_.queries_t, Q, chunk_.padded_queries(), keys_to_queries_, [&](size_t j, size_t column) {
      return chunk_.query_step(std::min(column + kPanel, chunk_.num_queries) - 1) >= j;
    });
    if (!chunk_.gated()) return;
    find_decays_between(chunk_, false, decays_, C);
    multiply(decays_, C, chunk_.padded_steps(), keys_to_keys_);
    find_decays_between(chunk_, true, decays_, Q);
    multiply(decays_, Q, chunk_.padded_queries(), keys_to_queries_);
  }

  // out[j][m] = k_j . b_m, tile by tile where wanted(j, first column).
  template <class Wanted>
  void products(const float* b_t, size_t stride, size_t columns, float* out, const Wanted& wanted) {
    for (size_t column = 0; column < columns; column += kPanel) {
      for_tiles(chunk_.steps, [&](auto rows, size_t j) HWY_ATTR {
        if (!wanted(j, column)) return;
        Tile<rows()> tile;
        set_zero(tile);
        add_product(tile, chunk_.keys_t + j, chunk_.C, b_t + column, stride, chunk_.in.K);
        store(tile, out + j * stride + column, stride);
      });
    }
  }

  // out *= factors, but zero where the factor is zero: what was not computed there is not read.
  void multiply(const float* factors, size_t stride, size_t columns, float* out) {
    for (size_t j = 0; j < chunk_.steps; ++j)
      for (size_t m = j * stride; m < j * stride + columns; m += kLanes)
        hn::StoreU(hn::Mul(hn::LoadU(kTag, factors + m), hn::LoadU(kTag, out + m)), kTag, out + m);
  }

  void scale_keys_to_end() {
    const size_t K = chunk_.in.K;
    for (size_t i = 0; i < chunk_.steps; ++i)
      for (size_t d = 0; d < K; ++d) chunk_.keys[i * K + d] *= chunk_.to_end[i];
  }

  // updates = beta e, e = v - decayed S^T k - sum_{j<i} L_ij u_j, for one panel of columns.
  void find_updates(const float* HWY_RESTRICT state, size_t p, float* HWY_RESTRICT errors) {
    const DeltaProductInputs& in = chunk_.in;
    const size_t C = chunk_.C;
    const float* values = in.v + chunk_.value_row() * in.V + p * kPanel;
    size_t stride = in.H * in.V;
    if ((p + 1) * kPanel > in.V) {  // the last columns: loads must not run past the end of v
      pack_panel(in.v + chunk_.value_row() * in.V, stride, chunk_.steps, in.V, p, values_);
      values = values_;
      stride = kPanel;
    }
    for_tiles(chunk_.steps, [&](auto rows, size_t i) HWY_ATTR {
      constexpr size_t R = rows();
      Tile<R> e;
      set_zero(e);
      add_product(e, chunk_.keys_t + i, C, state, kPanel, in.K);
      if (chunk_.gated()) scale_rows(e, chunk_.from_start + i);
      DP_FOR_TILE(r, c)
      e.v[r][c] = hn::Sub(hn::LoadU(kTag, values + (i + r) * stride + c * kLanes), e.v[r][c]);
      add_product<true>(e, keys_to_keys_ + i, C, updates_, kPanel, i);
      DP_UNROLL for (size_t r = 0; r < R; ++r) {
        Vec u[kVecs];
        DP_UNROLL for (size_t c = 0; c < kVecs; ++c) {
          u[c] = hn::Mul(hn::Set(kTag, chunk_.beta[i + r]), e.v[r][c]);
          hn::StoreU(u[c], kTag, updates_ + (i + r) * kPanel + c * kLanes);
        }
        DP_UNROLL for (size_t later = r + 1; later < R; ++later)
            add_scaled<true>(e.v[later], keys_to_keys_[(i + r) * C + i + later], u);
      }
      if (errors != nullptr) store(e, errors + i * kPanel, kPanel);
    });
  }

  // o = decayed Q S + P U for one panel of columns.
  void read_out(const float* HWY_RESTRICT state, size_t p, float* HWY_RESTRICT o) {
    const DeltaProductInputs& in = chunk_.in;
    const size_t Q = chunk_.Q, columns = std::min(kPanel, in.V - p * kPanel);
    for_tiles(chunk_.num_queries, [&](auto rows, size_t q) HWY_ATTR {
      constexpr size_t R = rows();
      Tile<R> tile;
      set_zero(tile);
      add_product(tile, chunk_.queries_t + q, Q, state, kPanel, in.K);
      if (chunk_.gated()) scale_rows(tile, chunk_.query_from_start + q);
      // Steps that the tile's first query sees are seen by all of it; the rest row by row, so that
      // no query is touched by what comes after it, not even by 0 x NaN.
      const size_t common = chunk_.query_step(q) + 1;
      add_product(tile, keys_to_queries_ + q, Q, updates_, kPanel, common);
      DP_UNROLL for (size_t r = 1; r < R; ++r) {
        const size_t seen = common + r * in.N;
        for (size_t j = common; j < seen; ++j) {
          Vec u[kVecs];
          load_row(u, updates_ + j * kPanel);
          add_scaled<false>(tile.v[r], keys_to_queries_[j * Q + q + r], u);
        }
      }
      float* out = o + chunk_.query_row() * in.V + q * in.H * in.V + p * kPanel;
      if (columns == kPanel) {
        store(tile, out, in.H * in.V);
      } else {
        HWY_ALIGN float padded[R * kPanel];
        store(tile, padded, kPanel);
        for (size_t r = 0; r < R; ++r)
          std::memcpy(out + r * in.H * in.V, padded + r * kPanel, columns * sizeof(float));
      }
    });
  }

  // S' = decayed S + K^T U for one panel of columns; before and after may be the same.
  void advance(const float* before, float* after) {
    const size_t K = chunk_.in.K;
    const float decay = chunk_.total_decay();
    for_tiles(K, [&](auto rows, size_t d) HWY_ATTR {
      Tile<rows()> tile;
      load(tile, before + d * kPanel, kPanel);
      if (chunk_.gated()) scale_all(tile, decay);
      add_product(tile, chunk_.keys + d, K, updates_, kPanel, chunk_.steps);
      store(tile, after + d * kPanel, kPanel);
    });
  }

  Scratch scratch_;
  Chunk chunk_;
  float* const keys_to_keys_;     // [C,C]
  float* const keys_to_queries_;  // [C,Q]
  float* const decays_;           // [C,max(C,Q)]
  float* const updates_;          // [C,kPanel]
  float* const values_;           // [C,kPanel]
};

void chunk_forward_target(const DeltaProductInputs& inputs, const ChunkPlan& plan,
                          const HeadSlice& slice, float* o, float* state,
                          const SavedHead<float>& saved) {
  ForwardHead(inputs, plan, slice).run(plan, slice, o, state, saved);
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(chunk_forward_target);
void chunk_forward(const DeltaProductInputs& inputs, const ChunkPlan& plan, const HeadSlice& slice,
                   float* o, float* state, const SavedHead<float>& saved) {
  HWY_DYNAMIC_DISPATCH(chunk_forward_target)(inputs, plan, slice, o, state, saved);
}
}  // namespace dp
#endif
