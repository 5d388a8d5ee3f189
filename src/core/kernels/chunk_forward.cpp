// Forward pass, chunk by chunk. With S the state before the chunk, L the strictly lower
// and P the lower triangle of decayed products of keys with keys and of queries with keys:
//   E = V - K S - (L diag(beta)) E   by forward substitution, one register tile at a time
//   O = Q S + (P diag(beta)) E,   S' = S + K^T U,   U = diag(beta) E
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
        chunk_(inputs, slice.sequence, plan.C),
        products_(chunk_),
        scratch_([&](ScratchLayout& layout) { lay_out(layout); }) {}

  void run(float* o, float* state, float* saved) {
    const DeltaProductInputs& in = chunk_.in;
    const size_t chunks = plan_.num_chunks(slice_.sequence), size = in.K * in.V;
    stream_o_ = should_stream(o, in.V, in.num_tokens() * in.H);
    stream_saved_ = should_stream(saved, plan_.saved_size(), plan_.first_chunk.back() * in.H);
    const auto saved_at = [&](size_t c, size_t h) {
      return saved_chunk(c < chunks ? saved : nullptr, plan_, in.H, slice_.sequence, c, h);
    };
    for (size_t h = slice_.head_begin; h < slice_.head_end; ++h) {
      const float* initial =
          in.state == nullptr ? nullptr : in.state + (slice_.sequence * in.H + h) * size;
      for (float* to : {head_state(h), saved_at(0, h).state})
        if (to != nullptr)
          pack_state(initial, in.K, in.V, slice_.panel_begin, slice_.panel_end, to);
    }
    for (size_t c = 0; c < chunks; ++c) {
      start_prefetch(c + 1 < chunks ? NextChunk(slice_, c + 1)
                                    : NextChunk::in_next_slice(slice_, in, plan_, false),
                     o);
      chunk_.select_chunk(c);
      for (size_t h = slice_.head_begin; h < slice_.head_end; ++h) {
        chunk_.load_head_for_forward(h);
        run_chunk(head_state(h), saved_at(c, h), saved_at(c + 1, h).state, o);
      }
    }
    hwy::FlushStream();
    if (state == nullptr) return;
    for (size_t h = slice_.head_begin; h < slice_.head_end; ++h)
      unpack_state(head_state(h), in.K, in.V, slice_.panel_begin, slice_.panel_end,
                   state + (slice_.sequence * in.H + h) * size);
  }

 private:
  void lay_out(ScratchLayout& layout) {
    chunk_.lay_out(layout);
    products_.lay_out(layout);
    for (float** panels : {&errors_, &updates_, &values_})
      *panels = layout.take(plan_.C * kTilePanels * kPanel);
    update_factors_ = layout.take(plan_.C);
    states_ = layout.take((slice_.head_end - slice_.head_begin) * plan_.state_size);
  }

  float* head_state(size_t h) const { return states_ + (h - slice_.head_begin) * plan_.state_size; }

  // What the heads will read and write in the next chunk, except what is saved, which bypasses the caches.
  void start_prefetch(const std::optional<NextChunk>& next, const float* o) {
    const DeltaProductInputs& in = chunk_.in;
    prefetcher_.clear();
    if (!next) return;
    const size_t heads = next->heads;
    const ChunkRows rows = next->rows(in, chunk_.C);
    const auto add = [&](const float* first, size_t pitch, size_t width, size_t count) {
      prefetcher_.add(first, pitch, heads * width, count);
    };
    add(in.k + rows.at_step(in.k_step(), in.K), in.k_step(), in.K, rows.steps);
    add(in.q + rows.at_query(in.q_step(), in.K), in.q_step(), in.K, rows.num_queries);
    add(in.v + rows.at_step(in.v_step(), in.V), in.v_step(), in.V, rows.steps);
    const size_t o_step = in.H * in.V;
    if (!stream_o_) add(o + rows.at_query(o_step, in.V), o_step, in.V, rows.num_queries);
    const size_t tiles = (chunk_.C + chunk_.C / in.N + in.K) / kMaxRows<kTilePanels * kVecs> + 1;
    const size_t panels = slice_.panel_end - slice_.panel_begin;
    prefetcher_.start((slice_.head_end - slice_.head_begin) * ceil_div(panels, kTilePanels) *
                      tiles);
  }

  // Takes a head's state, in panels, through the chunk; what `saved` points to and next_state (a copy
  // of the state after it) may be null.
  void run_chunk(float* state, SavedChunk<float> saved, float* next_state, float* o) {
    const auto panel = [](float* panels, size_t p, size_t rows) {
      return panels == nullptr ? nullptr : panels + p * rows * kPanel;
    };
    const size_t K = chunk_.in.K;
    if (slice_.panel_begin > 0) saved.key_products = nullptr;  // saved with the first panels
    products_.compute(saved, stream_saved_);
    for (size_t i = 0; i < chunk_.steps(); ++i)
      update_factors_[i] = chunk_.beta()[i] * (chunk_.gated() ? chunk_.to_end()[i] : 1.0f);
    for_panels(slice_.panel_begin, slice_.panel_end, [&](auto panels, size_t p) HWY_ATTR {
      compute_errors<panels()>(panel(state, p, K), p, panel(saved.errors, p, chunk_.C));
      read_out<panels()>(panel(state, p, K), p, o);
      advance<panels()>(panel(state, p, K), panel(next_state, p, K));
    });
  }

  // The products below are functions of their own, never inlined into one body: there GCC 12 spills
  // around their loops. Each takes P panels of columns from panel p on.

  // e = v - decayed S^T k - sum_{j<i} L_ij beta_j e_j, and updates: beta e decayed to the end of the chunk.
  template <size_t P>
  HWY_NOINLINE void compute_errors(const float* HWY_RESTRICT state, size_t p,
                                   float* HWY_RESTRICT saved) {
    constexpr size_t W = P * kVecs, kRow = P * kPanel;
    const DeltaProductInputs& in = chunk_.in;
    const size_t C = chunk_.C;
    const float* const head_values = in.v + chunk_.rows().at_step(in.v_step(), in.V);
    const float* values = head_values + p * kPanel;
    size_t stride = in.v_step(), panel = kPanel;
    if ((p + P) * kPanel > in.V) {  // the last columns: loads must not run past the end of v
      panel = C * kPanel;
      for (size_t i = 0; i < P; ++i)
        pack_panel(head_values, stride, chunk_.steps(), in.V, p + i, values_ + i * panel);
      values = values_;
      stride = kPanel;
    }
    for_tiles<W>(chunk_.steps(), [&](auto rows, size_t i) HWY_ATTR {
      constexpr size_t R = rows();
      prefetcher_.advance();
      Tile<R, W> e;
      set_zero(e);
      add_product_t(e, chunk_.keys_t() + i, C, state, kPanel, in.K, in.K * kPanel);
      if (chunk_.gated()) scale_rows(e, chunk_.from_start() + i);
      DP_FOR_TILE (r, c)
        e.v[r][c] = hn::Sub(hn::LoadU(kTag, values + (i + r) * stride + column_offset(c, panel)),
                            e.v[r][c]);
      const float* const beta_keys = products_.beta_keys() + i * C;
      add_product<true>(e, beta_keys, C, errors_, kRow, i);
      DP_FOR (r, R) {
        DP_UNROLL(32)
        for (size_t later = r + 1; later < R; ++later)
          add_scaled<true>(e.v[later], beta_keys[later * C + i + r], e.v[r]);
      }
      store(e, errors_ + i * kRow, kRow);
      if (saved != nullptr) store_panels(e, saved + i * kPanel, C * kPanel, stream_saved_);
      scale_rows(e, update_factors_ + i);
      store(e, updates_ + i * kRow, kRow);
    });
  }

  // o = decayed Q S + P diag(beta) E.
  template <size_t P>
  HWY_NOINLINE void read_out(const float* HWY_RESTRICT state, size_t p, float* HWY_RESTRICT o) {
    constexpr size_t W = P * kVecs, kRow = P * kPanel;
    const DeltaProductInputs& in = chunk_.in;
    const size_t C = chunk_.C, o_step = in.H * in.V;
    o += chunk_.rows().at_query(o_step, in.V) + p * kPanel;
    for_tiles<W>(chunk_.num_queries(), [&](auto rows, size_t q) HWY_ATTR {
      constexpr size_t R = rows();
      prefetcher_.advance();
      Tile<R, W> tile;
      set_zero(tile);
      add_product(tile, chunk_.queries() + q * in.K, in.K, state, kPanel, in.K, in.K * kPanel);
      if (chunk_.gated()) scale_rows(tile, chunk_.query_from_start() + q);
      // Steps that the tile's first query sees are seen by all of it, the next N by all but the first
      // and so on: no query is touched by what comes after it, not even by 0 x NaN.
      const float* const products = products_.beta_queries() + q * C;
      size_t j = chunk_.query_step(q) + 1;
      add_product(tile, products, C, errors_, kRow, j);
      DP_UNROLL(32)
      for (size_t first = 1; first < R; ++first) {
        for (const size_t seen = j + in.N; j < seen; ++j) {
          Vec e[W];
          load_row(e, errors_ + j * kRow);
          DP_UNROLL(32)
          for (size_t r = first; r < R; ++r) add_scaled<false>(tile.v[r], products[r * C + j], e);
        }
      }
      store_columns(tile, in.V - p * kPanel, o + q * o_step, o_step, stream_o_);
    });
  }

  // S' = decayed S + K^T U, in place and, unless null, to saved as well.
  template <size_t P>
  HWY_NOINLINE void advance(float* HWY_RESTRICT state, float* HWY_RESTRICT saved) {
    constexpr size_t W = P * kVecs, kRow = P * kPanel;
    const size_t C = chunk_.C, K = chunk_.in.K, panel = K * kPanel;
    const float decay = chunk_.total_decay();
    for_tiles<W>(K, [&](auto rows, size_t d) HWY_ATTR {
      prefetcher_.advance();
      Tile<rows(), W> tile;
      load(tile, state + d * kPanel, kPanel, panel);
      if (chunk_.gated()) scale_all(tile, decay);
      add_product(tile, chunk_.keys_t() + d * C, C, updates_, kRow, chunk_.steps());
      store(tile, state + d * kPanel, kPanel, panel);
      if (saved != nullptr) store_panels(tile, saved + d * kPanel, panel, stream_saved_);
    });
  }

  const ChunkPlan& plan_;
  const Slice slice_;
  bool stream_saved_ = false, stream_o_ = false;
  Chunk chunk_;
  Prefetcher prefetcher_;
  ChunkProducts products_;
  float *errors_, *updates_;  // [C,P kPanel]
  float* values_;             // [P][C,kPanel]
  float* update_factors_;     // [C] beta, decayed to the end of the chunk
  float* states_;             // [heads][panels][K][kPanel]
  const Scratch scratch_;     // last: its layout sets what comes before
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
