// The part of the backward pass that runs from chunk to chunk, one panel of columns at a time:
//   dU = K dS' + P^T dO - L^T dV,  dV = diag(beta) dU   by backward substitution
//   dS = dS' + Q^T dO - K^T dV
// dS' is the gradient of the state after the chunk; derivation in docs/math/chunk.md.
#if defined(DP_KERNELS_CHUNK_SWEEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_CHUNK_SWEEP_INL_H_
#undef DP_KERNELS_CHUNK_SWEEP_INL_H_
#else
#define DP_KERNELS_CHUNK_SWEEP_INL_H_
#endif

#include <utility>

#include "kernels/chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {

class ChunkSweep {
 public:
  static size_t scratch_size(const DeltaProductInputs& in, const ChunkPlan& plan) {
    return Scratch::rounded(plan.errors_size) + Scratch::rounded(plan.C * in.K) +
           Scratch::rounded(Chunk::query_capacity(in, plan.C) * in.K);
  }

  ChunkSweep(const Chunk& chunk, const ChunkPlan& plan, const SavedChunk<const float>& saved,
             ChunkPrefetcher& prefetcher, Scratch& scratch)
      : chunk_(chunk),
        plan_(plan),
        saved_(saved),
        prefetcher_(prefetcher),
        C(chunk.C),
        Q(chunk.Q),
        d_values_(scratch.take(plan.errors_size)),
        keys_from_start_(scratch.take(C * chunk.in.K)),
        queries_from_start_(scratch.take(Q * chunk.in.K)) {}

  /// After the chunk has been prepared.
  void prepare() {
    if (!chunk_.gated()) return;
    const size_t K = chunk_.in.K;
    scale_rows(chunk_.keys, K, chunk_.steps, K, chunk_.from_start, keys_from_start_);
    scale_rows(chunk_.queries, K, chunk_.num_queries, K, chunk_.query_from_start,
               queries_from_start_);
  }

  /// dU of panel p from its dS' and dO; also dV = beta dU, which goes to dv.
  HWY_NOINLINE void find_d_updates(size_t p, const float* HWY_RESTRICT d_state,
                                   const float* HWY_RESTRICT d_o, float* HWY_RESTRICT d_updates,
                                   float* HWY_RESTRICT dv) {
    const size_t steps = chunk_.steps, K = chunk_.in.K, V = chunk_.in.V, stride = chunk_.in.H * V;
    float* const d_values = d_values_ + p * C * kPanel;
    dv += chunk_.rows.step_row * V;
    const bool whole = (p + 1) * kPanel <= V;
    for_tiles_reversed(steps, [&](auto rows, size_t i) HWY_ATTR {
      constexpr size_t R = rows();
      prefetcher_.advance();
      Tile<R> x;
      set_zero(x);
      add_product(x, chunk_.keys + i * K, K, d_state, kPanel, K);
      if (chunk_.gated()) scale_rows(x, chunk_.to_end + i);
      add_d_o(x, i, d_o);
      add_product<true>(x, saved_.keys_to_keys + i * C + i + R, C, d_values + (i + R) * kPanel,
                        kPanel, steps - i - R);
      subtract_later(x, i, std::make_index_sequence<R>());
      store(x, d_updates + i * kPanel, kPanel);
      scale_rows(x, chunk_.beta + i);
      store(x, d_values + i * kPanel, kPanel);
      if (whole) store(x, dv + i * stride + p * kPanel, stride);
    });
    if (!whole) unpack_panel(d_values, steps, V, p, dv, stride);
  }

  /// dS = decayed dS' + Q^T dO - K^T dV of panel p; after and before may be the same.
  HWY_NOINLINE void retreat(size_t p, const float* after, const float* HWY_RESTRICT d_o,
                            float* before) {
    const float* d_values = d_values_ + p * C * kPanel;
    const float* keys = chunk_.gated() ? keys_from_start_ : chunk_.keys;
    const float* queries = chunk_.gated() ? queries_from_start_ : chunk_.queries;
    const float decay = chunk_.total_decay();
    const size_t K = chunk_.in.K;
    for_tiles(K, [&](auto rows, size_t d) HWY_ATTR {
      prefetcher_.advance();
      Tile<rows()> tile;
      load(tile, after + d * kPanel, kPanel);
      if (chunk_.gated()) scale_all(tile, decay);
      add_product_t(tile, queries + d, K, d_o, kPanel, chunk_.num_queries);
      add_product_t<true>(tile, keys + d, K, d_values, kPanel, chunk_.steps);
      store(tile, before + d * kPanel, kPanel);
    });
  }

 private:
  // x += P^T dO: queries that see the tile's last step see all of it, those before only its first rows.
  template <size_t R>
  HWY_INLINE void add_d_o(Tile<R>& x, size_t i, const float* HWY_RESTRICT d_o) {
    const size_t stride = plan_.query_stride;
    const float* products = saved_.keys_to_queries + i * stride;
    const size_t common = std::min(chunk_.first_query_after(i + R - 1), chunk_.num_queries);
    add_product(x, products + common, stride, d_o + common * kPanel, kPanel,
                chunk_.num_queries - common);
    for (size_t query = chunk_.first_query_after(i); query < common; ++query) {
      Vec row[kVecs];
      load_row(row, d_o + query * kPanel);
      with_rows<R>(chunk_.query_step(query) + 1 - i, 0, [&](auto seen, size_t) HWY_ATTR {
        DP_UNROLL for (size_t r = 0; r < decltype(seen)::value; ++r)
            add_scaled<false>(x.v[r], products[r * stride + query], row);
      });
    }
  }

  // The triangle inside a tile: row R-1 is final; each final row, times beta, is taken from those
  // before it.
  template <size_t R, size_t... kRows>
  HWY_INLINE void subtract_later(Tile<R>& x, size_t i, std::index_sequence<kRows...>) {
    (subtract_row<R - 1 - kRows>(x, i), ...);
  }
  template <size_t r, size_t R>
  HWY_INLINE void subtract_row(Tile<R>& x, size_t i) {
    Vec dv[kVecs];
    DP_UNROLL for (size_t c = 0; c < kVecs; ++c) dv[c] =
        hn::Mul(hn::Set(kTag, chunk_.beta[i + r]), x.v[r][c]);
    DP_UNROLL for (size_t earlier = 0; earlier < r; ++earlier)
        add_scaled<true>(x.v[earlier], saved_.keys_to_keys[(i + earlier) * C + i + r], dv);
  }

  const Chunk& chunk_;
  const ChunkPlan& plan_;
  const SavedChunk<const float>& saved_;  // of the chunk at hand
  ChunkPrefetcher& prefetcher_;
  const size_t C, Q;
  float *const d_values_, *const keys_from_start_, *const queries_from_start_;
};

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // DP_KERNELS_CHUNK_SWEEP_INL_H_
