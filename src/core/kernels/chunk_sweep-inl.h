// The part of the backward pass that runs from chunk to chunk, a tile's panels of columns at a time:
//   dU = K dS' + P^T dO - (diag(beta) L)^T dU,  dV = diag(beta) dU   by backward substitution
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
  ChunkSweep(const Chunk& chunk, const ChunkPlan& plan, const SavedChunk<const float>& saved,
             ChunkPrefetcher& prefetcher, bool stream_dv)
      : chunk_(chunk),
        plan_(plan),
        saved_(saved),
        prefetcher_(prefetcher),
        stream_dv_(stream_dv),
        C(chunk.C),
        Q(chunk.Q) {}

  void lay_out(ScratchLayout& layout) {
    d_values_ = layout.take(plan_.errors_size);
    beta_products_ = layout.take(C * C);
    d_value_factors_ = layout.take(C);
    queries_from_start_ = layout.take(Q * chunk_.in.K);
  }

  /// For the head that is loaded.
  void prepare() {
    const size_t K = chunk_.in.K;
    scale_rows(saved_.key_products, C, chunk_.steps(), C, chunk_.beta(), beta_products_);
    for (size_t i = 0; i < chunk_.steps(); ++i)
      d_value_factors_[i] = chunk_.beta()[i] * (chunk_.gated() ? chunk_.from_start()[i] : 1.0f);
    if (chunk_.gated())
      scale_rows(chunk_.queries(), K, chunk_.num_queries(), K, chunk_.query_from_start(),
                 queries_from_start_);
  }

  /// dU of P panels from panel p on, from their dS' and dO; also dV = beta dU, which goes to dv, whose steps are dv_step
  /// apart.
  template <size_t P>
  HWY_NOINLINE void compute_d_updates(size_t p, const float* HWY_RESTRICT d_state,
                                      const float* HWY_RESTRICT d_o, float* HWY_RESTRICT d_updates,
                                      float* HWY_RESTRICT dv, size_t dv_step) {
    constexpr size_t W = P * kVecs;
    const size_t steps = chunk_.steps(), K = chunk_.in.K, V = chunk_.in.V, panel = C * kPanel,
                 columns = V - p * kPanel;
    float* const d_values = d_values_ + p * panel;
    dv += chunk_.rows().at_step(dv_step, V) + p * kPanel;
    for_tiles_reversed<W>(steps, [&](auto rows, size_t i) HWY_ATTR {
      constexpr size_t R = rows();
      prefetcher_.advance();
      Tile<R, W> x;
      set_zero(x);
      add_product(x, chunk_.keys() + i * K, K, d_state, kPanel, K, K * kPanel);
      if (chunk_.gated()) scale_rows(x, chunk_.to_end() + i);
      add_d_o(x, i, d_o);
      add_product_t<true>(x, beta_products_ + (i + R) * C + i, C, d_updates + (i + R) * kPanel,
                          kPanel, steps - i - R, panel);
      subtract_later(x, beta_products_ + i * C + i, std::make_index_sequence<R>());
      store(x, d_updates + i * kPanel, kPanel, panel);
      if (chunk_.gated()) {
        Tile<R, W> decayed = x;
        scale_rows(decayed, d_value_factors_ + i);
        store(decayed, d_values + i * kPanel, kPanel, panel);
      }
      scale_rows(x, chunk_.beta() + i);
      if (!chunk_.gated()) store(x, d_values + i * kPanel, kPanel, panel);
      store_columns(x, columns, dv + i * dv_step, dv_step, stream_dv_);
    });
  }

  /// dS = decayed dS' + Q^T dO - K^T dV of P panels from panel p on; after and before may be the same.
  template <size_t P>
  HWY_NOINLINE void compute_d_state(size_t p, const float* after, const float* HWY_RESTRICT d_o,
                                    float* before) {
    constexpr size_t W = P * kVecs;
    const float* d_values = d_values_ + p * C * kPanel;
    const float* queries = chunk_.gated() ? queries_from_start_ : chunk_.queries();
    const float decay = chunk_.total_decay();
    const size_t K = chunk_.in.K;
    for_tiles<W>(K, [&](auto rows, size_t d) HWY_ATTR {
      prefetcher_.advance();
      Tile<rows(), W> tile;
      load(tile, after + d * kPanel, kPanel, K * kPanel);
      if (chunk_.gated()) scale_all(tile, decay);
      add_product_t(tile, queries + d, K, d_o, kPanel, chunk_.num_queries(), Q * kPanel);
      add_product_t<true>(tile, chunk_.keys() + d, K, d_values, kPanel, chunk_.steps(), C * kPanel);
      store(tile, before + d * kPanel, kPanel, K * kPanel);
    });
  }

 private:
  // x += P^T dO: queries that see the tile's last step see all of it, those before only its first rows.
  template <size_t R, size_t W>
  HWY_INLINE void add_d_o(Tile<R, W>& x, size_t i, const float* HWY_RESTRICT d_o) {
    const float* products = saved_.query_products + i;
    const size_t common = std::min(chunk_.first_query_after(i + R - 1), chunk_.num_queries());
    add_product_t(x, products + common * C, C, d_o + common * kPanel, kPanel,
                  chunk_.num_queries() - common, Q * kPanel);
    for (size_t query = chunk_.first_query_after(i); query < common; ++query) {
      Vec row[W];
      load_row(row, d_o + query * kPanel, Q * kPanel);
      with_rows<R>(chunk_.query_step(query) + 1 - i, 0, [&](auto seen, size_t) HWY_ATTR {
        DP_FOR (r, decltype(seen)::value) add_scaled<false>(x.v[r], products[query * C + r], row);
      });
    }
  }

  // The triangle inside a tile: row R-1 is final; each final row is taken from those before it.
  template <size_t R, size_t W, size_t... kRows>
  HWY_INLINE void subtract_later(Tile<R, W>& x, const float* HWY_RESTRICT beta_products,
                                 std::index_sequence<kRows...>) {
    (subtract_row<R - 1 - kRows>(x, beta_products), ...);
  }
  template <size_t r, size_t R, size_t W>
  HWY_INLINE void subtract_row(Tile<R, W>& x, const float* HWY_RESTRICT beta_products) {
    DP_FOR (earlier, r) add_scaled<true>(x.v[earlier], beta_products[r * C + earlier], x.v[r]);
  }

  const Chunk& chunk_;
  const ChunkPlan& plan_;
  const SavedChunk<const float>& saved_;  // of the head that is loaded
  ChunkPrefetcher& prefetcher_;
  const bool stream_dv_;
  const size_t C, Q;
  float* d_values_;            // [panels][C][kPanel] dV, decayed from the start of the chunk
  float* beta_products_;       // [C,C] [i][j] = beta_i L_ij for j < i
  float* d_value_factors_;     // [C]
  float* queries_from_start_;  // [Q,K]
};

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // DP_KERNELS_CHUNK_SWEEP_INL_H_
