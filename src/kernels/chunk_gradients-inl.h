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
  static size_t scratch_size(const DeltaProductInputs& in, const ChunkPlan& plan) {
    const size_t C = plan.C, Q = Chunk::query_capacity(in, C), padded_v = plan.panels * kPanel;
    const auto size = [](size_t floats) { return Scratch::rounded(floats); };
    return 3 * size(C * C) + 2 * size(Q * C) + size(Q * padded_v) + 2 * size(C * padded_v) +
           size(C * in.K) + size(Q * in.K) + 5 * size(C) + size(Q);
  }

  ChunkGradients(const Chunk& chunk, const ChunkPlan& plan, const SavedChunk<const float>& saved,
                 ChunkPrefetcher& prefetcher, const DeltaProductGradients& out, Scratch& scratch)
      : chunk_(chunk),
        plan_(plan),
        saved_(saved),
        prefetcher_(prefetcher),
        out_(out),
        C(chunk.C),
        Q(chunk.Q),
        decays_(scratch.take(C * C)),
        swap_(scratch.take(C * C)),
        d_key_products_(scratch.take(C * C)),
        d_query_products_(scratch.take(Q * C)),
        d_query_products_t_(scratch.take(C * Q)),
        d_o_t_(scratch.take(Q * plan.panels * kPanel)),
        d_updates_t_(scratch.take(C * plan.panels * kPanel)),
        errors_t_(scratch.take(C * plan.panels * kPanel)),
        dk_t_(scratch.take(C * chunk.in.K)),
        dq_t_(scratch.take(Q * chunk.in.K)),
        minus_beta_(scratch.take(C)),
        d_value_factors_(scratch.take(C)),
        update_factors_(scratch.take(C)),
        d_log_from_start_(scratch.take(C)),
        d_log_to_end_(scratch.take(C)),
        d_log_queries_(scratch.take(Q)),
        d_log_(C) {}

  /// Writes the gradients of q, k, beta and gate for the chunk at hand.
  void find(const ChunkValues& values) {
    const DeltaProductInputs& in = chunk_.in;
    find_factors();
    transpose_panels(values);
    find_dbeta();
    find_d_products(values);
    find_dk(values.states, values.d_states);
    find_dq(values.states);
    transpose(dk_t_, C, in.K, chunk_.steps, out_.dk + chunk_.rows.step_row * in.K, in.H * in.K);
    transpose(dq_t_, Q, in.K, chunk_.num_queries, out_.dq + chunk_.rows.query_row * in.K,
              in.H * in.K);
    if (chunk_.gated()) find_dlog_gate(values.states, values.d_states);
  }

 private:
  // dV = beta dU and U = beta E: beta comes in when a product is done, with the decay if there is one.
  void find_factors() {
    for (size_t i = 0; i < chunk_.padded_steps(); ++i) {
      minus_beta_[i] = -chunk_.beta[i];
      d_value_factors_[i] = chunk_.beta[i] * (chunk_.gated() ? chunk_.from_start[i] : 1.0f);
      update_factors_[i] = chunk_.beta[i] * (chunk_.gated() ? chunk_.to_end[i] : 1.0f);
    }
  }

  // Steps (or queries) along the lanes: errors_t [V][C] = E^T, d_updates_t = dU^T, d_o_t [V][Q].
  HWY_NOINLINE void transpose_panels(const ChunkValues& values) {
    const size_t steps = chunk_.steps, queries = chunk_.num_queries;
    for (size_t p = 0; p < plan_.panels; ++p) {
      const size_t row = p * kPanel;
      transpose(values.errors + row * C, kPanel, steps, kPanel, errors_t_ + row * C, C);
      transpose(values.d_updates + row * C, kPanel, steps, kPanel, d_updates_t_ + row * C, C);
      transpose(values.d_o + row * Q, kPanel, queries, kPanel, d_o_t_ + row * Q, Q);
    }
    // Columns beyond the last step or query are never stored, but must not trap or be slow.
    clear_columns(errors_t_, C, steps, chunk_.padded_steps());
    clear_columns(d_updates_t_, C, steps, chunk_.padded_steps());
    clear_columns(d_o_t_, Q, queries, chunk_.padded_queries());
  }

  HWY_NOINLINE void find_dbeta() {
    float* dbeta = out_.dbeta + chunk_.rows.step_row;
    for (size_t i = 0; i < chunk_.steps; i += kLanes) {
      Vec even = hn::Zero(kTag), odd = hn::Zero(kTag);
      for (size_t x = i; x < plan_.panels * kPanel * C; x += 2 * C) {
        even = hn::MulAdd(hn::LoadU(kTag, errors_t_ + x), hn::LoadU(kTag, d_updates_t_ + x), even);
        odd = hn::MulAdd(hn::LoadU(kTag, errors_t_ + x + C), hn::LoadU(kTag, d_updates_t_ + x + C),
                         odd);
      }
      HWY_ALIGN float sums[kLanes];
      hn::StoreU(hn::Add(even, odd), kTag, sums);
      for (size_t r = 0; r < std::min(kLanes, chunk_.steps - i); ++r)
        dbeta[(i + r) * chunk_.in.H] = sums[r];
    }
  }

  void clear_columns(float* per_value, size_t stride, size_t begin, size_t end) {
    for (size_t row = 0; begin < end && row < plan_.panels * kPanel; ++row)
      std::fill(per_value + row * stride + begin, per_value + row * stride + end, 0.0f);
  }

  // d_key_products[j][i] = gradient of k_j . k_i through L, symmetric; d_query_products[r][i] that of
  // q_r . k_i through P. When gated, also their part in the gradient of the log decays.
  HWY_NOINLINE void find_d_products(const ChunkValues& values) {
    for (size_t column = 0; column < chunk_.steps; column += kLanes) {
      const size_t above = std::min(chunk_.steps, column + kLanes) - 1;  // rows above the diagonal
      for_tiles<1>(above, [&](auto rows, size_t j) HWY_ATTR {
        Tile<rows(), 1> tile;
        set_zero(tile);
        for (size_t p = 0; p < plan_.panels; ++p)
          add_product(tile, values.errors + (p * C + j) * kPanel, kPanel,
                      d_updates_t_ + p * kPanel * C + column, C, kPanel);
        scale_rows(tile, chunk_.beta + j);
        scale_columns(tile, minus_beta_ + column);
        store(tile, d_key_products_ + j * C + column, C);
      });
      const size_t unseeing = chunk_.first_query_after(column);
      if (unseeing >= chunk_.num_queries) continue;
      for_tiles<1>(chunk_.num_queries - unseeing, [&](auto rows, size_t first) HWY_ATTR {
        const size_t r = unseeing + first;
        Tile<rows(), 1> tile;
        set_zero(tile);
        for (size_t p = 0; p < plan_.panels; ++p)
          add_product(tile, values.d_o + (p * Q + r) * kPanel, kPanel,
                      errors_t_ + p * kPanel * C + column, C, kPanel);
        scale_columns(tile, chunk_.beta + column);
        store(tile, d_query_products_ + r * C + column, C);
      });
    }
    clear_unseen(d_query_products_);
    if (chunk_.gated()) {
      find_decays_between(chunk_, false, decays_, C);
      mirror(decays_, 1.0f);
      add_product_decays();
      for (size_t j = 0; j < chunk_.steps; ++j) multiply(d_key_products_ + j * C, decays_ + j * C);
      for (size_t r = 0; r < chunk_.num_queries; ++r)
        multiply(d_query_products_ + r * C, decays_ + chunk_.query_step(r) * C);
    }
    mirror(d_key_products_, 0.0f);
    transpose(d_query_products_, C, chunk_.num_queries, chunk_.steps, d_query_products_t_, Q);
    for (size_t i = 0; chunk_.num_queries < chunk_.padded_queries() && i < chunk_.steps; ++i)
      std::fill(d_query_products_t_ + i * Q + chunk_.num_queries,
                d_query_products_t_ + i * Q + chunk_.padded_queries(), 0.0f);
  }

  // Copies the part of a [C,C] matrix above the diagonal to below it.
  HWY_NOINLINE void mirror(float* matrix, float diagonal) {
    const size_t steps = chunk_.padded_steps();
    transpose(matrix, C, steps, steps, swap_, C);
    for (size_t j = 0; j < chunk_.steps; ++j) {
      float* row = matrix + j * C;
      for (size_t i = 0; i < j; i += kLanes)
        hn::StoreU(hn::IfThenElse(hn::FirstN(kTag, j - i), hn::LoadU(kTag, swap_ + j * C + i),
                                  hn::LoadU(kTag, row + i)),
                   kTag, row + i);
      row[j] = diagonal;
    }
  }

  void multiply(float* row, const float* factors) {
    for (size_t i = 0; i < chunk_.padded_steps(); i += kLanes)
      hn::StoreU(hn::Mul(hn::LoadU(kTag, row + i), hn::LoadU(kTag, factors + i)), kTag, row + i);
  }

  // per_query [Q,C]: zero for the steps after each query's own.
  HWY_NOINLINE void clear_unseen(float* per_query) {
    for (size_t r = 0; r < chunk_.num_queries; ++r) {
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
  // double precision, because find_dlog_gate sums over both.
  void add_product_decays() {
    std::fill(d_log_.begin(), d_log_.end(), 0.0);
    for (size_t j = 0; j < chunk_.steps; ++j) {
      for (size_t i = j + 1; i < chunk_.steps; ++i) {
        const double z =
            static_cast<double>(d_key_products_[j * C + i]) * saved_.keys_to_keys[j * C + i];
        d_log_[i] += z;
        d_log_[j] -= z;
      }
      for (size_t r = chunk_.first_query_after(j); r < chunk_.num_queries; ++r) {
        const double z = static_cast<double>(d_query_products_[r * C + j]) *
                         saved_.keys_to_queries[j * plan_.query_stride + r];
        d_log_[chunk_.query_step(r)] += z;
        d_log_[j] -= z;
      }
    }
  }

  // dk_t [K][C]
  HWY_NOINLINE void find_dk(const float* HWY_RESTRICT states, const float* HWY_RESTRICT d_states) {
    const size_t K = chunk_.in.K, panel_size = K * kPanel;
    std::fill(d_log_from_start_, d_log_from_start_ + C, 0.0f);
    std::fill(d_log_to_end_, d_log_to_end_ + C, 0.0f);
    for (size_t column = 0; column < chunk_.padded_steps(); column += kPanel) {
      for_tiles(K, [&](auto rows, size_t d) HWY_ATTR {
        constexpr size_t R = rows(), W = kVecs;
        float* out = dk_t_ + d * C + column;
        prefetcher_.advance();
        Tile<R> tile;
        set_zero(tile);
        for (size_t p = 0; p < plan_.panels; ++p)
          add_product<true>(tile, states + p * panel_size + d * kPanel, kPanel,
                            d_updates_t_ + p * kPanel * C + column, C, kPanel);
        if (chunk_.gated()) {
          scale_columns(tile, d_value_factors_ + column);
          add_column_dots(tile, chunk_.keys_t + d * C + column, C, d_log_from_start_ + column);
          store(tile, out, C);
          set_zero(tile);
        }
        for (size_t p = 0; p < plan_.panels; ++p)
          add_product(tile, d_states + p * panel_size + d * kPanel, kPanel,
                      errors_t_ + p * kPanel * C + column, C, kPanel);
        scale_columns(tile, update_factors_ + column);
        if (chunk_.gated()) {
          add_column_dots(tile, chunk_.keys_t + d * C + column, C, d_log_to_end_ + column);
          DP_FOR_TILE(r, c)
          tile.v[r][c] = hn::Add(tile.v[r][c], hn::LoadU(kTag, out + r * C + c * kLanes));
        }
        add_product_t(tile, chunk_.keys + d, K, d_key_products_ + column, C, chunk_.steps);
        add_product_t(tile, chunk_.queries + d, K, d_query_products_ + column, C,
                      chunk_.num_queries);
        store(tile, out, C);
      });
    }
  }

  // dq_t [K][Q]
  HWY_NOINLINE void find_dq(const float* HWY_RESTRICT states) {
    if (chunk_.gated()) std::fill(d_log_queries_, d_log_queries_ + Q, 0.0f);
    size_t column = 0;
    for (; column + kPanel <= chunk_.padded_queries(); column += kPanel)
      find_dq_columns<kVecs>(states, column);
    for (; column < chunk_.num_queries; column += kLanes) find_dq_columns<1>(states, column);
  }

  template <size_t W>
  void find_dq_columns(const float* HWY_RESTRICT states, size_t column) {
    for_tiles<W>(chunk_.in.K, [&](auto rows, size_t d) HWY_ATTR {
      Tile<rows(), W> tile;
      set_zero(tile);
      for (size_t p = 0; p < plan_.panels; ++p)
        add_product(tile, states + (p * chunk_.in.K + d) * kPanel, kPanel,
                    d_o_t_ + p * kPanel * Q + column, Q, kPanel);
      if (chunk_.gated()) {
        scale_columns(tile, chunk_.query_from_start + column);
        add_column_dots(tile, chunk_.queries_t + d * Q + column, Q, d_log_queries_ + column);
      }
      add_product_t(tile, chunk_.keys + d, chunk_.in.K, d_query_products_t_ + column, Q,
                    chunk_.steps);
      scale_all(tile, chunk_.in.scale);
      store(tile, dq_t_ + d * Q + column, Q);
    });
  }

  // sums[column] += sum_r tile[r][column] b[r stride + column]
  template <size_t R, size_t W>
  HWY_INLINE void add_column_dots(const Tile<R, W>& tile, const float* HWY_RESTRICT b,
                                  size_t stride, float* HWY_RESTRICT sums) {
    DP_UNROLL for (size_t c = 0; c < W; ++c) {
      Vec sum = hn::LoadU(kTag, sums + c * kLanes);
      DP_UNROLL for (size_t r = 0; r < R; ++r) sum =
          hn::MulAdd(tile.v[r][c], hn::LoadU(kTag, b + r * stride + c * kLanes), sum);
      hn::StoreU(sum, kTag, sums + c * kLanes);
    }
  }

  // A token's gate is a factor of from_start[i] for every step i of the chunk from its first on, and
  // to_end[i] is from_start[last] / from_start[i].
  HWY_NOINLINE void find_dlog_gate(const float* states, const float* d_states) {
    Vec dot = hn::Zero(kTag);
    for (size_t x = 0; x < plan_.state_size; x += kLanes)
      dot = hn::MulAdd(hn::LoadU(kTag, states + x), hn::LoadU(kTag, d_states + x), dot);
    double later =
        static_cast<double>(chunk_.total_decay()) * hn::GetLane(hn::SumOfLanes(kTag, dot));
    for (size_t r = 0; r < chunk_.num_queries; ++r)
      d_log_[chunk_.query_step(r)] += d_log_queries_[r];
    for (size_t i = 0; i < chunk_.steps; ++i) later += d_log_to_end_[i];
    for (size_t i = chunk_.steps; i-- > 0;) {
      later += d_log_[i] + d_log_from_start_[i] - d_log_to_end_[i];
      const size_t step = chunk_.begin + i;
      if (step % chunk_.in.N == 0)
        out_.dlog_gate[(chunk_.first_token + step / chunk_.in.N) * chunk_.in.H + chunk_.h] =
            static_cast<float>(later);
    }
  }

  const Chunk& chunk_;
  const ChunkPlan& plan_;
  const SavedChunk<const float>& saved_;  // of the chunk at hand
  ChunkPrefetcher& prefetcher_;
  const DeltaProductGradients& out_;
  const size_t C, Q;
  float *const decays_, *const swap_;  // [C,C]
  float *const d_key_products_, *const d_query_products_,
                                    *const d_query_products_t_;               // [C,C] [Q,C] [C,Q]
  float *const d_o_t_, *const d_updates_t_, *const errors_t_;                 // [V,Q] [V,C] [V,C]
  float *const dk_t_, *const dq_t_;                                           // [K,C] [K,Q]
  float *const minus_beta_, *const d_value_factors_, *const update_factors_;  // [C]
  float *const d_log_from_start_, *const d_log_to_end_;                       // [C]
  float* const d_log_queries_;                                                // [Q]
  std::vector<double> d_log_;                                                 // [C]
};

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // DP_KERNELS_CHUNK_GRADIENTS_INL_H_
