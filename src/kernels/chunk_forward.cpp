// Forward pass, chunk by chunk. With S the state before the chunk, L the strictly lower
// and P the lower triangle of decayed products of keys with keys and of queries with keys:
//   E = V - K S - L U,  U = diag(beta) E   by forward substitution, one register tile at a time
//   O = Q S + P U,      S' = S + K^T U
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk_forward.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "kernels/chunk-inl.h"
#include "kernels/chunk_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {

class ForwardPass {
 public:
  ForwardPass(const DeltaProductInputs& inputs, const ChunkPlan& plan, const Slice& slice)
      : plan_(plan),
        slice_(slice),
        scratch_(scratch_size(inputs, plan.C)),
        chunk_(inputs, slice.sequence, plan.C, scratch_),
        triangles_(chunk_, scratch_),
        updates_(scratch_.take(plan.C * kPanel)),
        values_(scratch_.take(plan.C * kPanel)),
        keys_to_end_(chunk_.gated() ? scratch_.take(plan.C * inputs.K) : chunk_.keys_t) {}

  void run(float* o, float* state, float* saved) {
    const DeltaProductInputs& in = chunk_.in;
    const size_t chunks = plan_.num_chunks(slice_.sequence), size = in.K * in.V;
    const size_t heads = slice_.head_end - slice_.head_begin;
    Scratch states_memory(heads * plan_.state_size);
    float* const states = states_memory.take(heads * plan_.state_size);
    saved_is_aligned_ = reinterpret_cast<uintptr_t>(saved) % (kLanes * sizeof(float)) == 0;
    const auto saved_at = [&](size_t c, size_t h) {
      return saved_chunk(c < chunks ? saved : nullptr, plan_, in.H, slice_.sequence, c, h);
    };
    for (size_t h = slice_.head_begin; h < slice_.head_end; ++h) {
      const float* initial =
          in.state == nullptr ? nullptr : in.state + (slice_.sequence * in.H + h) * size;
      for (float* to : {head_state(states, h), saved_at(0, h).state})
        if (to != nullptr)
          pack_state(initial, in.K, in.V, slice_.panel_begin, slice_.panel_end, to);
    }
    for (size_t c = 0; c < chunks; ++c) {
      plan_prefetch(c + 1, o);
      for (size_t h = slice_.head_begin; h < slice_.head_end; ++h) {
        chunk_.prepare(c, h);
        chunk_.pack_columns();
        run_chunk(head_state(states, h), saved_at(c, h), saved_at(c + 1, h).state, o);
      }
    }
    hwy::FlushStream();
    if (state == nullptr) return;
    for (size_t h = slice_.head_begin; h < slice_.head_end; ++h)
      unpack_state(head_state(states, h), in.K, in.V, slice_.panel_begin, slice_.panel_end,
                   state + (slice_.sequence * in.H + h) * size);
  }

 private:
  static size_t scratch_size(const DeltaProductInputs& in, size_t C) {
    return Chunk::scratch_size(in, C) + Triangles::scratch_size(in, C) +
           2 * Scratch::rounded(C * kPanel) + Scratch::rounded(C * in.K);
  }

  float* head_state(float* states, size_t h) const {
    return states + (h - slice_.head_begin) * plan_.state_size;
  }

  // Names what all heads of the slice will read and write in chunk c, but for what is saved: that goes
  // past the caches.
  void plan_prefetch(size_t c, const float* o) {
    const DeltaProductInputs& in = chunk_.in;
    prefetcher_.clear();
    if (c >= plan_.num_chunks(slice_.sequence)) return;
    const size_t heads = slice_.head_end - slice_.head_begin;
    const ChunkRows rows(in, chunk_.first_token, chunk_.num_steps, chunk_.C, c, slice_.head_begin);
    prefetcher_.add(in.k + rows.step_row * in.K, in.H * in.K, heads * in.K, rows.steps);
    prefetcher_.add(in.q + rows.query_row * in.K, in.H * in.K, heads * in.K, rows.num_queries);
    prefetcher_.add(in.v + rows.step_row * in.V, in.H * in.V, heads * in.V, rows.steps);
    prefetcher_.add(o + rows.query_row * in.V, in.H * in.V, heads * in.V, rows.num_queries);
    const size_t tiles = (chunk_.C + chunk_.C / in.N + in.K) / kMaxRows<kVecs> + 1;
    prefetcher_.start(heads * (slice_.panel_end - slice_.panel_begin) * tiles);
  }

  // Takes a head's state, in panels, through the chunk; what `saved` points to and next_state (a copy
  // of the state after it) may be null.
  void run_chunk(float* state, const SavedChunk<float>& saved, float* next_state, float* o) {
    const auto panel = [](float* panels, size_t p, size_t rows) {
      return panels == nullptr ? nullptr : panels + p * rows * kPanel;
    };
    const size_t K = chunk_.in.K;
    triangles_.find();
    if (saved.keys_to_keys != nullptr && slice_.panel_begin == 0)
      triangles_.save(saved, plan_.query_stride, saved_is_aligned_);
    if (chunk_.gated())
      scale_columns(chunk_.keys_t, chunk_.to_end, K, chunk_.C, chunk_.steps, keys_to_end_);
    for (size_t p = slice_.panel_begin; p < slice_.panel_end; ++p) {
      find_updates(panel(state, p, K), p, panel(saved.errors, p, chunk_.C));
      read_out(panel(state, p, K), p, o);
      advance(panel(state, p, K), panel(next_state, p, K));
    }
  }

  // The products below are functions of their own, never inlined into one body: there GCC 12 spills
  // around their loops.

  // updates = beta e, e = v - decayed S^T k - sum_{j<i} L_ij u_j, for one panel of columns.
  HWY_NOINLINE void find_updates(const float* HWY_RESTRICT state, size_t p,
                                 float* HWY_RESTRICT errors) {
    const DeltaProductInputs& in = chunk_.in;
    const size_t C = chunk_.C;
    const float* values = in.v + chunk_.rows.step_row * in.V + p * kPanel;
    size_t stride = in.H * in.V;
    if ((p + 1) * kPanel > in.V) {  // the last columns: loads must not run past the end of v
      pack_panel(in.v + chunk_.rows.step_row * in.V, stride, chunk_.steps, in.V, p, values_);
      values = values_;
      stride = kPanel;
    }
    for_tiles(chunk_.steps, [&](auto rows, size_t i) HWY_ATTR {
      constexpr size_t R = rows(), W = kVecs;
      prefetcher_.advance();
      Tile<R> e;
      set_zero(e);
      add_product_t(e, chunk_.keys_t + i, C, state, kPanel, in.K);
      if (chunk_.gated()) scale_rows(e, chunk_.from_start + i);
      DP_FOR_TILE(r, c)
      e.v[r][c] = hn::Sub(hn::LoadU(kTag, values + (i + r) * stride + c * kLanes), e.v[r][c]);
      add_product_t<true>(e, triangles_.keys_to_keys + i, C, updates_, kPanel, i);
      DP_UNROLL for (size_t r = 0; r < R; ++r) {
        Vec u[kVecs];
        DP_UNROLL for (size_t c = 0; c < kVecs; ++c) {
          u[c] = hn::Mul(hn::Set(kTag, chunk_.beta[i + r]), e.v[r][c]);
          hn::StoreU(u[c], kTag, updates_ + (i + r) * kPanel + c * kLanes);
        }
        DP_UNROLL for (size_t later = r + 1; later < R; ++later)
            add_scaled<true>(e.v[later], triangles_.keys_to_keys[(i + r) * C + i + later], u);
      }
      if (errors != nullptr) stream(e, errors + i * kPanel, saved_is_aligned_);
    });
  }

  // o = decayed Q S + P U for one panel of columns.
  HWY_NOINLINE void read_out(const float* HWY_RESTRICT state, size_t p, float* HWY_RESTRICT o) {
    const DeltaProductInputs& in = chunk_.in;
    const size_t Q = chunk_.Q, columns = std::min(kPanel, in.V - p * kPanel);
    for_tiles(chunk_.num_queries, [&](auto rows, size_t q) HWY_ATTR {
      constexpr size_t R = rows();
      prefetcher_.advance();
      Tile<R> tile;
      set_zero(tile);
      add_product_t(tile, chunk_.queries_t + q, Q, state, kPanel, in.K);
      if (chunk_.gated()) scale_rows(tile, chunk_.query_from_start + q);
      // Steps that the tile's first query sees are seen by all of it, the next N by all but the first
      // and so on: no query is touched by what comes after it, not even by 0 x NaN.
      size_t j = chunk_.query_step(q) + 1;
      add_product_t(tile, triangles_.keys_to_queries + q, Q, updates_, kPanel, j);
      DP_UNROLL for (size_t first = 1; first < R; ++first) {
        for (const size_t seen = j + in.N; j < seen; ++j) {
          Vec u[kVecs];
          load_row(u, updates_ + j * kPanel);
          DP_UNROLL for (size_t r = first; r < R; ++r)
              add_scaled<false>(tile.v[r], triangles_.keys_to_queries[j * Q + q + r], u);
        }
      }
      float* out = o + chunk_.rows.query_row * in.V + q * in.H * in.V + p * kPanel;
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

  // S' = decayed S + K^T U for one panel of columns, in place and, unless null, to saved as well.
  HWY_NOINLINE void advance(float* HWY_RESTRICT state, float* HWY_RESTRICT saved) {
    const size_t K = chunk_.in.K;
    const float decay = chunk_.total_decay();
    for_tiles(K, [&](auto rows, size_t d) HWY_ATTR {
      prefetcher_.advance();
      Tile<rows()> tile;
      load(tile, state + d * kPanel, kPanel);
      if (chunk_.gated()) scale_all(tile, decay);
      add_product(tile, keys_to_end_ + d * chunk_.C, chunk_.C, updates_, kPanel, chunk_.steps);
      store(tile, state + d * kPanel, kPanel);
      if (saved != nullptr) stream(tile, saved + d * kPanel, saved_is_aligned_);
    });
  }

  const ChunkPlan& plan_;
  const Slice slice_;
  bool saved_is_aligned_ = false;
  Scratch scratch_;
  Chunk chunk_;
  Prefetcher prefetcher_;
  Triangles triangles_;
  float* const updates_;      // [C,kPanel]
  float* const values_;       // [C,kPanel]
  float* const keys_to_end_;  // [K,C], keys_t decayed to the end of the chunk
};

void chunk_forward_target(const DeltaProductInputs& inputs, const ChunkPlan& plan,
                          const Slice& slice, float* o, float* state, float* saved) {
  ForwardPass(inputs, plan, slice).run(o, state, saved);
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(chunk_forward_target);
void chunk_forward(const DeltaProductInputs& inputs, const ChunkPlan& plan, const Slice& slice,
                   float* o, float* state, float* saved) {
  HWY_DYNAMIC_DISPATCH(chunk_forward_target)(inputs, plan, slice, o, state, saved);
}
}  // namespace dp
#endif
