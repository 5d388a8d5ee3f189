// The part of the backward pass that concerns one chunk alone, once the sweep has left dU and dS':
//   dbeta = rowsum(dU E),  dL = -dV U^T,  dP = dO U^T
//   dK = U dS'^T - dV S^T + (dL + dL^T) K + dP^T Q,  dQ = dO S^T + dP K
// and the gates' gradient; derivation in docs/math/chunk.md.
#if defined(DP_KERNELS_CHUNK_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_CHUNK_GRADIENTS_INL_H_
#undef DP_KERNELS_CHUNK_GRADIENTS_INL_H_
#else
#define DP_KERNELS_CHUNK_GRADIENTS_INL_H_
#endif

#include <vector>

#include "kernels/chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {

/// All value columns of one chunk, in panels.
struct ChunkValues {
  const float* states;     // [panels][K][kPanel] the state before the chunk
  const float* d_states;   // [panels][K][kPanel] the gradient of the state after it
  const float* errors;     // [panels][C][kPanel] E
  const float* d_updates;  // [panels][C][kPanel] dU
  const float* d_o;        // [panels][Q][kPanel] dO
};

class ChunkGradients {
 public:
  ChunkGradients(const Chunk& chunk, const ChunkPlan& plan, const SavedChunk<const float>& saved,
                 ChunkPrefetcher& prefetcher, const DeltaProductGradients& out, bool stream_dk,
                 bool stream_dq)
      : chunk_(chunk),
        plan_(plan),
        saved_(saved),
        prefetcher_(prefetcher),
        out_(out),
        stream_dk_(stream_dk),
        stream_dq_(stream_dq),
        C(chunk.C),
        Q(chunk.Q),
        used_steps_(C),
        used_queries_(Q),
        d_log_(C) {}

  void lay_out(ScratchLayout& layout) {
    const size_t padded_v = plan_.panels * kPanel;
    for (float** matrix : {&decays_, &d_key_products_}) *matrix = layout.take(C * C);
    d_query_products_ = layout.take(Q * C);
    d_o_t_ = layout.take(Q * padded_v);
    for (float** matrix : {&d_updates_t_, &errors_t_}) *matrix = layout.take(C * padded_v);
    dk_t_ = layout.take(C * kKeyBlock), dq_t_ = layout.take(Q * kKeyBlock);
    dk_ = layout.take(C * kKeyBlock), dq_ = layout.take(Q * kKeyBlock);
    for (float** steps :
         {&minus_beta_, &d_value_factors_, &update_factors_, &d_log_from_start_, &d_log_to_end_})
      *steps = layout.take(C);
    d_log_queries_ = layout.take(Q);
    if (!chunk_.in.normalise) return;
    normal_dk_ = layout.take(C * chunk_.in.K), normal_dq_ = layout.take(Q * chunk_.in.K);
  }

  /// Writes the gradients of q, k, beta and gate for the head that is loaded.
  void compute(const ChunkValues& values) {
    compute_factors();
    transpose_panels(values);
    compute_d_products(values);
    compute_dbeta();
    if (chunk_.gated()) {
      std::fill(d_log_from_start_, d_log_from_start_ + C, 0.0f);
      std::fill(d_log_to_end_, d_log_to_end_ + C, 0.0f);
      std::fill(d_log_queries_, d_log_queries_ + Q, 0.0f);
    }
    for (size_t d = 0; d < chunk_.in.K; d += kKeyBlock)
      compute_dk_and_dq(values, d, std::min(kKeyBlock, chunk_.in.K - d));
    if (chunk_.gated()) compute_dlog_gate(values.states, values.d_states);
    if (chunk_.in.normalise) undo_normalisation();
  }

 private:
  // Key columns at a time: what is found of them stays in the first-level cache until it is written.
  static constexpr size_t kKeyBlock = 32;

  // dV = beta dU and U = beta E: beta comes in when a product is done, with the decay if there is one.
  void compute_factors() {
    for (size_t i = 0; i < chunk_.padded_steps(); ++i) {
      minus_beta_[i] = -chunk_.beta()[i];
      d_value_factors_[i] = chunk_.beta()[i] * (chunk_.gated() ? chunk_.from_start()[i] : 1.0f);
      update_factors_[i] = chunk_.beta()[i] * (chunk_.gated() ? chunk_.to_end()[i] : 1.0f);
    }
  }

  // Steps (or queries) along the lanes: errors_t [V][C] = E^T, d_updates_t = dU^T, d_o_t [V][Q].
  HWY_NOINLINE void transpose_panels(const ChunkValues& values) {
    const size_t steps = chunk_.steps(), queries = chunk_.num_queries();
    const auto transpose_all = [&](const float* panels, size_t stride, size_t count, float* to) {
      for (size_t row = 0; row < plan_.panels * kPanel; row += kPanel)
        transpose(panels + row * stride, kPanel, count, kPanel, to + row * stride, stride);
    };
    transpose_all(values.errors, C, steps, errors_t_);
    transpose_all(values.d_o, Q, queries, d_o_t_);
    transpose_all(values.d_updates, C, steps, d_updates_t_);
    // Columns beyond the last step or query are never stored, but must not trap or be slow.
    clear_columns(errors_t_, C, steps, used_steps_);
    clear_columns(d_updates_t_, C, steps, used_steps_);
    clear_columns(d_o_t_, Q, queries, used_queries_);
    used_steps_ = steps;
    used_queries_ = queries;
  }

  HWY_NOINLINE void compute_dbeta() {
    float* dbeta = out_.dbeta + chunk_.rows().at_step(chunk_.in.H, 1);
    for (size_t i = 0; i < chunk_.steps(); i += kLanes) {
      Vec sum[4] = {hn::Zero(kTag), hn::Zero(kTag), hn::Zero(kTag), hn::Zero(kTag)};
      for (size_t x = i; x < plan_.panels * kPanel * C; x += 4 * C) {
        DP_FOR (part, 4)
          sum[part] = hn::MulAdd(hn::LoadU(kTag, errors_t_ + x + part * C),
                                 hn::LoadU(kTag, d_updates_t_ + x + part * C), sum[part]);
      }
      HWY_ALIGN float sums[kLanes];
      hn::StoreU(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])), kTag, sums);
      for (size_t r = 0; r < std::min(kLanes, chunk_.steps() - i); ++r)
        dbeta[(i + r) * chunk_.in.H] = sums[r];
    }
  }

  void clear_columns(float* per_value, size_t stride, size_t begin, size_t end) {
    for (size_t row = 0; begin < end && row < plan_.panels * kPanel; ++row)
      std::fill(per_value + row * stride + begin, per_value + row * stride + end, 0.0f);
  }

  // d_key_products[i][j] = gradient of k_i . k_j through L, j < i; d_query_products[r][j] that of
  // q_r . k_j through P. When gated, also their part in the gradient of the log decays.
  HWY_NOINLINE void compute_d_products(const ChunkValues& values) {
    for (size_t column = 0; column < chunk_.steps(); column += kLanes) {
      compute_d_product_rows(column + 1, chunk_.steps(), column, values.d_updates, C, minus_beta_,
                             d_key_products_);
      compute_d_product_rows(chunk_.first_query_after(column), chunk_.num_queries(), column,
                             values.d_o, Q, nullptr, d_query_products_);
    }
    if (chunk_.gated()) {
      compute_decays_between(chunk_, decays_);
      add_product_decays();
      for (size_t i = 1; i < chunk_.steps(); ++i)
        multiply(d_key_products_ + i * C, decays_ + i * C);
      for (size_t r = 0; r < chunk_.num_queries(); ++r)
        multiply(d_query_products_ + r * C, decays_ + chunk_.query_step(r) * C);
    }
    clear_unseen(d_query_products_);
    mirror_blocks<kTilePanels * kVecs>();
  }

  // out[x][column ..] = row_factors[x] (values_x . beta_j e_j) for begin <= x < end and a vector of steps j from column on;
  // values are panels of `rows_per_panel` rows.
  HWY_INLINE void compute_d_product_rows(size_t begin, size_t end, size_t column,
                                         const float* HWY_RESTRICT values, size_t rows_per_panel,
                                         const float* HWY_RESTRICT row_factors,
                                         float* HWY_RESTRICT out) const {
    if (begin >= end) return;
    for_tiles<1, kMaxNarrowRows>(end - begin, [&](auto rows, size_t first) HWY_ATTR {
      const size_t x = begin + first;
      Tile<rows(), 1> tile;
      set_zero(tile);
      for (size_t p = 0; p < plan_.panels; ++p)
        add_product(tile, values + (p * rows_per_panel + x) * kPanel, kPanel,
                    errors_t_ + p * kPanel * C + column, C, kPanel);
      if (row_factors != nullptr) scale_rows(tile, row_factors + x);
      scale_columns(tile, chunk_.beta() + column);
      store(tile, out + x * C + column, C);
    });
  }

  // add_to_dk reads d_key_products as a symmetric matrix: rows of it before a tile, columns after it, and in between a block
  // that is made symmetric here, with zeros on the diagonal.
  template <size_t W>
  HWY_NOINLINE void mirror_blocks() {
    for_tiles<W>(chunk_.steps(), [&](auto rows, size_t i) {
      float* const block = d_key_products_ + i * C + i;
      for (size_t r = 0; r < rows(); ++r) {
        for (size_t c = 0; c < r; ++c) block[c * C + r] = block[r * C + c];
        block[r * C + r] = 0;
      }
    });
  }

  void multiply(float* row, const float* factors) {
    for (size_t i = 0; i < chunk_.padded_steps(); i += kLanes)
      hn::StoreU(hn::Mul(hn::LoadU(kTag, row + i), hn::LoadU(kTag, factors + i)), kTag, row + i);
  }

  // per_query [Q,C]: zero for the steps after each query's own.
  HWY_NOINLINE void clear_unseen(float* per_query) {
    for (size_t r = 0; r < chunk_.num_queries(); ++r) {
      float* row = per_query + r * C;
      const size_t seen = chunk_.query_step(r) + 1;
      for (size_t i = seen / kLanes * kLanes; i < chunk_.padded_steps(); i += kLanes)
        hn::StoreU(hn::IfThenElseZero(hn::FirstN(kTag, seen - std::min(seen, i)),
                                      hn::LoadU(kTag, row + i)),
                   kTag, row + i);
    }
  }

  // d_log[i]: gradient of the log of from_start[i]. A product of steps j < i (or of query r at step i
  // with step j) carries decay from_start[i] / from_start[j], so what one gains the other loses: in
  // double precision, because compute_dlog_gate sums over both.
  void add_product_decays() {
    std::fill(d_log_.begin(), d_log_.end(), 0.0);
    const hn::CappedTag<double, kPanel> d;
    const hn::Rebind<float, decltype(d)> floats;
    const auto add = [&](const float* d_products, const float* products, size_t i,
                         size_t count) HWY_ATTR {
      auto sum = hn::Zero(d);
      for (size_t j = 0; j < count; j += hn::Lanes(d)) {
        const auto product = hn::Mul(hn::PromoteTo(d, hn::LoadU(floats, d_products + j)),
                                     hn::PromoteTo(d, hn::LoadU(floats, products + j)));
        const auto z = hn::IfThenElseZero(hn::FirstN(d, count - j), product);
        sum = hn::Add(sum, z);
        hn::StoreU(hn::Sub(hn::LoadU(d, &d_log_[j]), z), d, &d_log_[j]);
      }
      d_log_[i] += hn::GetLane(hn::SumOfLanes(d, sum));
    };
    for (size_t i = 1; i < chunk_.steps(); ++i)
      add(d_key_products_ + i * C, saved_.key_products + i * C, i, i);
    for (size_t r = 0; r < chunk_.num_queries(); ++r) {
      const size_t step = chunk_.query_step(r);
      add(d_query_products_ + r * C, saved_.query_products + r * C, step, step + 1);
    }
  }

  // Key columns [begin, begin + count): first what comes through the states, steps and queries along the lanes,
  //   dk_t = (U dS'^T - dV S^T)^T,  dq_t = (dO S^T)^T,
  // then, key columns along the lanes, what comes through products of keys and queries:
  //   dk = dk_t^T + (dL + dL^T) K + dP^T Q,  dq = scale (dq_t^T + dP K)
  void compute_dk_and_dq(const ChunkValues& values, size_t begin, size_t count) {
    for_panels(0, chunk_.padded_steps() / kPanel, [&](auto panels, size_t p) HWY_ATTR {
      compute_dk_columns<panels() * kVecs>(values, begin, count, p * kPanel);
    });
    size_t query = 0;
    for (; query + kPanel <= chunk_.padded_queries(); query += kPanel)
      compute_dq_columns<kVecs>(values, begin, count, query);
    for (; query < chunk_.num_queries(); query += kLanes)
      compute_dq_columns<1>(values, begin, count, query);
    transpose(dk_t_, C, count, chunk_.steps(), dk_, kKeyBlock);
    transpose(dq_t_, Q, count, chunk_.num_queries(), dq_, kKeyBlock);
    for_panels(0, (count + kPanel - 1) / kPanel, [&](auto panels, size_t p) HWY_ATTR {
      add_to_dk<panels()>(begin, p * kPanel);
      add_to_dq<panels()>(begin, p * kPanel);
    });
  }

  template <size_t W>
  HWY_NOINLINE void compute_dk_columns(const ChunkValues& values, size_t begin, size_t count,
                                       size_t column) {
    const size_t panel_size = chunk_.in.K * kPanel;
    for_tiles<W>(count, [&](auto rows, size_t first) HWY_ATTR {
      constexpr size_t R = rows();
      const size_t d = begin + first;
      float* out = dk_t_ + first * C + column;
      prefetcher_.advance();
      Tile<R, W> tile;
      set_zero(tile);
      for (size_t p = 0; p < plan_.panels; ++p)
        add_product<true>(tile, values.states + p * panel_size + d * kPanel, kPanel,
                          d_updates_t_ + p * kPanel * C + column, C, kPanel);
      if (chunk_.gated()) {
        scale_columns(tile, d_value_factors_ + column);
        add_column_dots(tile, chunk_.keys_t() + d * C + column, C, d_log_from_start_ + column);
        store(tile, out, C);
        set_zero(tile);
      }
      for (size_t p = 0; p < plan_.panels; ++p)
        add_product(tile, values.d_states + p * panel_size + d * kPanel, kPanel,
                    errors_t_ + p * kPanel * C + column, C, kPanel);
      scale_columns(tile, update_factors_ + column);
      if (chunk_.gated()) {
        add_column_dots(tile, chunk_.keys_t() + d * C + column, C, d_log_to_end_ + column);
        DP_FOR_TILE (r, c)
          tile.v[r][c] = hn::Add(tile.v[r][c], hn::LoadU(kTag, out + r * C + c * kLanes));
      }
      store(tile, out, C);
    });
  }

  template <size_t W>
  HWY_NOINLINE void compute_dq_columns(const ChunkValues& values, size_t begin, size_t count,
                                       size_t column) {
    for_tiles<W>(count, [&](auto rows, size_t first) HWY_ATTR {
      const size_t d = begin + first;
      prefetcher_.advance();
      Tile<rows(), W> tile;
      set_zero(tile);
      for (size_t p = 0; p < plan_.panels; ++p)
        add_product(tile, values.states + (p * chunk_.in.K + d) * kPanel, kPanel,
                    d_o_t_ + p * kPanel * Q + column, Q, kPanel);
      if (chunk_.gated()) {
        scale_columns(tile, chunk_.query_from_start() + column);
        add_column_dots(tile, chunk_.queries_t() + d * Q + column, Q, d_log_queries_ + column);
      }
      store(tile, dq_t_ + first * Q + column, Q);
    });
  }

  // P panels of the block's columns, from column `first` of it on.
  template <size_t P>
  HWY_NOINLINE void add_to_dk(size_t begin, size_t first) {
    constexpr size_t W = P * kVecs;
    const size_t K = chunk_.in.K, column = begin + first;
    const bool normal = chunk_.in.normalise;
    const size_t stride = normal ? K : dk_step();
    float* const out = normal ? normal_dk_ + column : dk_rows() + column;
    for_tiles<W>(chunk_.steps(), [&](auto rows, size_t i) HWY_ATTR {
      prefetcher_.advance();
      Tile<rows(), W> tile;
      load(tile, dk_ + i * kKeyBlock + first, kKeyBlock);
      const size_t end = i + rows();
      add_product(tile, d_key_products_ + i * C, C, chunk_.keys() + column, K, end);
      add_product_t(tile, d_key_products_ + end * C + i, C, chunk_.keys() + end * K + column, K,
                    chunk_.steps() - end);
      add_product_t(tile, d_query_products_ + i, C, chunk_.queries() + column, K,
                    chunk_.num_queries());
      store_columns(tile, K - column, out + i * stride, stride, stream_dk_ && !normal);
    });
  }

  template <size_t P>
  HWY_NOINLINE void add_to_dq(size_t begin, size_t first) {
    constexpr size_t W = P * kVecs;
    const size_t K = chunk_.in.K, column = begin + first;
    const bool normal = chunk_.in.normalise;
    const size_t stride = normal ? K : dq_step();
    float* const out = normal ? normal_dq_ + column : dq_rows() + column;
    for_tiles<W>(chunk_.num_queries(), [&](auto rows, size_t r) HWY_ATTR {
      prefetcher_.advance();
      Tile<rows(), W> tile;
      load(tile, dq_ + r * kKeyBlock + first, kKeyBlock);
      add_product(tile, d_query_products_ + r * C, C, chunk_.keys() + column, K,
                  chunk_.query_step(r + rows() - 1) + 1);
      if (!normal) scale_all(tile, chunk_.in.scale);
      store_columns(tile, K - column, out + r * stride, stride, stream_dq_ && !normal);
    });
  }

  size_t dk_step() const { return out_.dk_pitch == 0 ? chunk_.in.H * chunk_.in.K : out_.dk_pitch; }
  size_t dq_step() const { return out_.dq_pitch == 0 ? chunk_.in.H * chunk_.in.K : out_.dq_pitch; }
  float* dk_rows() const { return out_.dk + chunk_.rows().at_step(dk_step(), chunk_.in.K); }
  float* dq_rows() const { return out_.dq + chunk_.rows().at_query(dq_step(), chunk_.in.K); }

  // From the gradients of unit rows n = x / r, which wait in scratch, to those of x: (dn - n (n . dn)) / r.
  void undo_normalisation() {
    const DeltaProductInputs& in = chunk_.in;
    for (size_t i = 0; i < chunk_.steps(); ++i)
      undo_row(normal_dk_ + i * in.K, chunk_.key_rows() + i * in.k_step(), chunk_.key_norms()[i],
               1.0f, dk_rows() + i * dk_step(), stream_dk_);
    for (size_t r = 0; r < chunk_.num_queries(); ++r)
      undo_row(normal_dq_ + r * in.K, chunk_.query_rows() + r * in.q_step(),
               chunk_.query_norms()[r], in.scale, dq_rows() + r * dq_step(), stream_dq_);
  }

  HWY_NOINLINE void undo_row(const float* HWY_RESTRICT dn, const float* HWY_RESTRICT x,
                             float inverse_norm, float scale, float* HWY_RESTRICT out,
                             bool streaming) const {
    const size_t K = chunk_.in.K;
    const Vec inverse = hn::Set(kTag, inverse_norm);
    Vec sum = hn::Zero(kTag);
    size_t d = 0;
    for (; d + kLanes <= K; d += kLanes)
      sum = hn::MulAdd(hn::Mul(inverse, hn::LoadU(kTag, x + d)), hn::LoadU(kTag, dn + d), sum);
    float along = hn::GetLane(hn::SumOfLanes(kTag, sum));
    for (; d < K; ++d) along += x[d] * inverse_norm * dn[d];
    const float factor = inverse_norm * scale;
    const Vec factors = hn::Set(kTag, factor), minus_along = hn::Set(kTag, -along);
    for (d = 0; d + kLanes <= K; d += kLanes) {
      const Vec n = hn::Mul(inverse, hn::LoadU(kTag, x + d));
      store(hn::Mul(factors, hn::MulAdd(minus_along, n, hn::LoadU(kTag, dn + d))), out + d,
            streaming);
    }
    for (; d < K; ++d) out[d] = factor * (dn[d] - along * (x[d] * inverse_norm));
  }

  // sums[column] += sum_r tile[r][column] b[r stride + column]
  template <size_t R, size_t W>
  HWY_INLINE void add_column_dots(const Tile<R, W>& tile, const float* HWY_RESTRICT b,
                                  size_t stride, float* HWY_RESTRICT sums) {
    DP_FOR (c, W) {
      Vec sum = hn::LoadU(kTag, sums + c * kLanes);
      DP_FOR (r, R)
        sum = hn::MulAdd(tile.v[r][c], hn::LoadU(kTag, b + r * stride + c * kLanes), sum);
      hn::StoreU(sum, kTag, sums + c * kLanes);
    }
  }

  // A token's gate is a factor of from_start[i] for every step i of the chunk from its first on, and
  // to_end[i] is from_start[last] / from_start[i].
  HWY_NOINLINE void compute_dlog_gate(const float* states, const float* d_states) {
    Vec dots[4] = {hn::Zero(kTag), hn::Zero(kTag), hn::Zero(kTag), hn::Zero(kTag)};
    const auto add = [&](size_t x, Vec& dot) HWY_ATTR {
      dot = hn::MulAdd(hn::LoadU(kTag, states + x), hn::LoadU(kTag, d_states + x), dot);
    };
    size_t x = 0;
    for (; x + 4 * kLanes <= plan_.state_size; x += 4 * kLanes)
      DP_FOR (part, 4) add(x + part * kLanes, dots[part]);
    for (; x < plan_.state_size; x += kLanes) add(x, dots[0]);
    const Vec dot = hn::Add(hn::Add(dots[0], dots[1]), hn::Add(dots[2], dots[3]));
    double later =
        static_cast<double>(chunk_.total_decay()) * hn::GetLane(hn::SumOfLanes(kTag, dot));
    for (size_t r = 0; r < chunk_.num_queries(); ++r)
      d_log_[chunk_.query_step(r)] += d_log_queries_[r];
    for (size_t i = 0; i < chunk_.steps(); ++i) later += d_log_to_end_[i];
    size_t i = chunk_.steps();
    for (size_t g = chunk_.num_gates(); g-- > 0;) {
      while (i > chunk_.gate_step(g)) {
        --i;
        later += d_log_[i] + d_log_from_start_[i] - d_log_to_end_[i];
      }
      out_.dlog_gate[chunk_.gate_row(g)] = static_cast<float>(later);
    }
  }

  const Chunk& chunk_;
  const ChunkPlan& plan_;
  const SavedChunk<const float>& saved_;  // of the head that is loaded
  ChunkPrefetcher& prefetcher_;
  const DeltaProductGradients& out_;
  const bool stream_dk_, stream_dq_;
  const size_t C, Q;
  float* decays_;                              // [C,C]
  float *d_key_products_, *d_query_products_;  // [C,C] [Q,C]
  float *d_o_t_, *d_updates_t_, *errors_t_;    // [V,Q] [V,C] [V,C]
  float *dk_t_, *dq_t_;  // of a block of key columns: [kKeyBlock,C] [kKeyBlock,Q]
  float *dk_, *dq_;      // the same transposed
  float *normal_dk_ = nullptr, *normal_dq_ = nullptr;  // [C,K] [Q,K] of unit rows, if in.normalise
  float *minus_beta_, *d_value_factors_, *update_factors_;  // [C]
  float *d_log_from_start_, *d_log_to_end_;                 // [C]
  float* d_log_queries_;                                    // [Q]
  // Columns of errors_t_ and d_updates_t_, and of d_o_t_, that may not be zero.
  size_t used_steps_, used_queries_;
  std::vector<double> d_log_;  // [C]
};

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // DP_KERNELS_CHUNK_GRADIENTS_INL_H_
