// Backward pass, chunk by chunk from the last. Names as in chunk_forward.cpp; dX is the
// gradient of X, and dS' that of the state after the chunk. Derivation in docs/math/chunk.md.
//   sweep:      dU = K dS' + P^T dO - L^T dV,  dV = diag(beta) dU   by backward substitution
//               dS = dS' + Q^T dO - K^T dV
//   gradients:  dK = U dS'^T - dV S^T + (dL + dL^T) K + dP^T Q   with dL = -dV U^T, dP = dO U^T
//               dQ = dO S^T + dP K,  dbeta = rowsum(dU E)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk_backward.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "kernels/chunk-inl.h"
#include "kernels/chunk_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {

class BackwardPass {
 public:
  BackwardPass(const DeltaProductInputs& inputs, const ChunkPlan& plan, const Slice& slice,
               const float* saved, const DeltaProductGradients& gradients,
               const SweepBuffers* buffers)
      : in_(inputs),
        plan_(plan),
        slice_(slice),
        saved_(saved),
        out_(gradients),
        buffers_(buffers),
        scratch_(scratch_size(inputs, plan)),
        chunk_(inputs, slice.sequence, plan.C, scratch_),
        triangles_(chunk_, scratch_),
        C(plan.C),
        Q(chunk_.Q) {
    const size_t padded_v = plan.panels * kPanel, K = inputs.K;
    decays_ = scratch_.take(C * C);
    swap_ = scratch_.take(C * C);
    d_key_products_ = scratch_.take(C * C);
    d_query_products_ = scratch_.take(Q * C);
    d_query_products_t_ = scratch_.take(C * Q);
    d_o_ = scratch_.take(Q * padded_v);
    d_o_t_ = scratch_.take(Q * padded_v);
    d_values_ = scratch_.take(C * kPanel);
    minus_d_values_t_ = scratch_.take(C * padded_v);
    updates_t_ = scratch_.take(C * padded_v);
    dk_t_ = scratch_.take(C * K);
    dq_t_ = scratch_.take(Q * K);
    d_log_from_start_ = scratch_.take(C);
    d_log_to_end_ = scratch_.take(C);
    d_log_.resize(C);
    minus_beta_ = scratch_.take(C);
    d_log_queries_ = scratch_.take(Q);
    keys_from_start_ = chunk_.gated() ? scratch_.take(C * K) : chunk_.keys_t;
    queries_from_start_ = chunk_.gated() ? scratch_.take(Q * K) : chunk_.queries_t;
  }

  void run(const BackwardWork& work) {
    const size_t size = in_.K * in_.V;
    for (size_t h = slice_.head_begin; work.sweep && h < slice_.head_end; ++h) {
      const float* d_final = out_.d_final_state == nullptr
                                 ? nullptr
                                 : out_.d_final_state + (slice_.sequence * in_.H + h) * size;
      pack_state(d_final, in_.K, in_.V, slice_.panel_begin, slice_.panel_end,
                 d_state(h, work.chunk_end));
    }
    for (size_t c = work.chunk_end; c-- > work.chunk_begin;)
      for (size_t h = slice_.head_begin; h < slice_.head_end; ++h) {
        chunk_.prepare(c, h);
        if (c > work.chunk_begin) plan_prefetch(c - 1);
        if (work.sweep || chunk_.gated()) find_products();
        for (size_t p = slice_.panel_begin; p < slice_.panel_end; ++p)
          pack_panel(out_.d_o + chunk_.rows.query_row * in_.V, in_.H * in_.V, chunk_.num_queries,
                     in_.V, p, d_o_ + p * Q * kPanel);
        if (work.sweep) sweep(c);
        if (work.gradients) find_gradients(c);
      }
    if (!work.sweep || out_.dstate == nullptr) return;
    for (size_t h = slice_.head_begin; h < slice_.head_end; ++h)
      unpack_state(d_state(h, work.chunk_begin), in_.K, in_.V, slice_.panel_begin, slice_.panel_end,
                   out_.dstate + (slice_.sequence * in_.H + h) * size);
  }

 private:
  static size_t scratch_size(const DeltaProductInputs& in, const ChunkPlan& plan) {
    const size_t C = plan.C, Q = Chunk::query_capacity(in, C), padded_v = plan.panels * kPanel;
    const auto size = [](size_t floats) { return Scratch::rounded(floats); };
    return Chunk::scratch_size(in, C) + Triangles::scratch_size(in, C) + 3 * size(C * C) +
           2 * size(Q * C) + 2 * size(Q * padded_v) + size(C * kPanel) + 2 * size(C * padded_v) +
           2 * size(C * in.K) + 2 * size(Q * in.K) + 3 * size(C) + size(Q);
  }

  // Names what the head at hand will read and write in chunk c.
  void plan_prefetch(size_t c) {
    const ChunkRows rows(in_, chunk_.first_token, chunk_.num_steps, C, c, chunk_.h);
    const auto saved = saved_head(saved_, plan_, in_.H, slice_.sequence, chunk_.h);
    const size_t key_stride = in_.H * in_.K, value_stride = in_.H * in_.V;
    prefetcher_.clear();
    prefetcher_.add(in_.k + rows.step_row * in_.K, key_stride, in_.K, rows.steps);
    prefetcher_.add(in_.q + rows.query_row * in_.K, key_stride, in_.K, rows.num_queries);
    prefetcher_.add(out_.d_o + rows.query_row * in_.V, value_stride, in_.V, rows.num_queries);
    prefetcher_.add(out_.dv + rows.step_row * in_.V, value_stride, in_.V, rows.steps);
    prefetcher_.add(saved.errors + c * plan_.errors_size, plan_.errors_size);
    prefetcher_.add(saved.states + c * plan_.state_size, plan_.state_size);
    prefetcher_.add(out_.dk + rows.step_row * in_.K, key_stride, in_.K, rows.steps);
    prefetcher_.add(out_.dq + rows.query_row * in_.K, key_stride, in_.K, rows.num_queries);
    prefetcher_.start(plan_.panels * ((C + in_.K) / kMaxRows<kVecs> + 1) +
                      (in_.K / kMaxRows<kVecs> + 1) * (C / kPanel));
  }

  // Gradient of the state of head h before chunk c, in panels.
  float* d_state(size_t h, size_t c) const {
    const SweepBuffers& buffers = buffers_[h - slice_.head_begin];
    return buffers.d_states + buffers.state_slot(c) * plan_.state_size;
  }
  // Gradients of the chunk's updates, of the head at hand.
  float* d_updates(size_t c) const {
    const SweepBuffers& buffers = buffers_[chunk_.h - slice_.head_begin];
    return buffers.d_updates + buffers.update_slot(c) * plan_.errors_size;
  }

  void find_products() {
    const size_t K = in_.K;
    triangles_.find();
    if (!chunk_.gated()) return;
    find_decays_between(chunk_, false, decays_, C);
    mirror(decays_, 1.0f);
    scale_columns(chunk_.keys_t, chunk_.from_start, K, C, chunk_.steps, keys_from_start_);
    scale_columns(chunk_.queries_t, chunk_.query_from_start, K, Q, chunk_.num_queries,
                  queries_from_start_);
  }

  // Copies the part of a [C,C] matrix above the diagonal to below it.
  HWY_NOINLINE void mirror(float* matrix, float diagonal) {
    const size_t steps = chunk_.padded_steps();
    transpose(matrix, C, steps, steps, swap_, C);
    for (size_t j = 0; j < chunk_.steps; ++j) {
      std::memcpy(matrix + j * C, swap_ + j * C, j * sizeof(float));
      matrix[j * C + j] = diagonal;
    }
  }

  void multiply(float* row, const float* factors) {
    for (size_t i = 0; i < chunk_.padded_steps(); i += kLanes)
      hn::StoreU(hn::Mul(hn::LoadU(kTag, row + i), hn::LoadU(kTag, factors + i)), kTag, row + i);
  }

  HWY_NOINLINE void clear_unseen(float* per_query) {
    for (size_t r = 0; r < chunk_.num_queries; ++r) {
      const size_t seen = chunk_.query_step(r) + 1;
      std::memset(per_query + r * C + seen, 0, (chunk_.padded_steps() - seen) * sizeof(float));
    }
  }

  HWY_NOINLINE void sweep(size_t c) {
    for (size_t p = slice_.panel_begin; p < slice_.panel_end; ++p) {
      const size_t panel_size = in_.K * kPanel;
      const float* after = d_state(chunk_.h, c + 1) + p * panel_size;
      find_d_updates(after, d_o_ + p * Q * kPanel, d_updates(c) + p * C * kPanel);
      unpack_panel(d_values_, chunk_.steps, in_.V, p, out_.dv + chunk_.rows.step_row * in_.V,
                   in_.H * in_.V);
      retreat(after, d_o_ + p * Q * kPanel, d_state(chunk_.h, c) + p * panel_size);
    }
  }

  // dU and dV = beta dU of one panel.
  HWY_NOINLINE void find_d_updates(const float* HWY_RESTRICT d_state, const float* HWY_RESTRICT d_o,
                                   float* HWY_RESTRICT d_updates) {
    const size_t steps = chunk_.steps;
    for_tiles_reversed(steps, [&](auto rows, size_t i) HWY_ATTR {
      constexpr size_t R = rows();
      prefetcher_.advance();
      Tile<R> x;
      set_zero(x);
      add_product_t(x, chunk_.keys_t + i, C, d_state, kPanel, in_.K);
      if (chunk_.gated()) scale_rows(x, chunk_.to_end + i);
      add_d_o(x, i, d_o);
      add_product<true>(x, triangles_.keys_to_keys + i * C + i + R, C, d_values_ + (i + R) * kPanel,
                        kPanel, steps - i - R);
      finish_rows(x, i, std::make_index_sequence<R>());
      store(x, d_updates + i * kPanel, kPanel);
    });
  }

  // x += P^T dO: queries that the tile's last step is seen by see all of it; the rest row by row.
  template <size_t R>
  HWY_INLINE void add_d_o(Tile<R>& x, size_t i, const float* HWY_RESTRICT d_o) {
    const float* products = triangles_.keys_to_queries + i * Q;
    const size_t common = std::min(first_query_after(i + R - 1), chunk_.num_queries);
    add_product(x, products + common, Q, d_o + common * kPanel, kPanel,
                chunk_.num_queries - common);
    DP_UNROLL for (size_t r = 0; r + 1 < R; ++r) {
      for (size_t query = first_query_after(i + r); query < common; ++query) {
        Vec row[kVecs];
        load_row(row, d_o + query * kPanel);
        add_scaled<false>(x.v[r], products[r * Q + query], row);
      }
    }
  }

  // The first query that sees step i; it may be beyond the chunk.
  size_t first_query_after(size_t i) const {
    return (chunk_.begin + i) / in_.N - chunk_.rows.first_query;
  }

  // The triangle inside a tile: row R-1 is final; each final row is taken from those before it.
  template <size_t R, size_t... kRows>
  HWY_INLINE void finish_rows(Tile<R>& x, size_t i, std::index_sequence<kRows...>) {
    (finish_row<R - 1 - kRows>(x, i), ...);
  }
  template <size_t r, size_t R>
  HWY_INLINE void finish_row(Tile<R>& x, size_t i) {
    Vec dv[kVecs];
    DP_UNROLL for (size_t c = 0; c < kVecs; ++c) {
      dv[c] = hn::Mul(hn::Set(kTag, chunk_.beta[i + r]), x.v[r][c]);
      hn::StoreU(dv[c], kTag, d_values_ + (i + r) * kPanel + c * kLanes);
    }
    DP_UNROLL for (size_t earlier = 0; earlier < r; ++earlier)
        add_scaled<true>(x.v[earlier], triangles_.keys_to_keys[(i + earlier) * C + i + r], dv);
  }

  // dS = decayed dS' + Q^T dO - K^T dV of one panel.
  HWY_NOINLINE void retreat(const float* HWY_RESTRICT after, const float* HWY_RESTRICT d_o,
                            float* HWY_RESTRICT before) {
    const size_t K = in_.K;
    const float decay = chunk_.total_decay();
    for_tiles(K, [&](auto rows, size_t d) HWY_ATTR {
      prefetcher_.advance();
      Tile<rows()> tile;
      load(tile, after + d * kPanel, kPanel);
      if (chunk_.gated()) scale_all(tile, decay);
      add_product(tile, queries_from_start_ + d * Q, Q, d_o, kPanel, chunk_.num_queries);
      add_product<true>(tile, keys_from_start_ + d * C, C, d_values_, kPanel, chunk_.steps);
      store(tile, before + d * kPanel, kPanel);
    });
  }

  void find_gradients(size_t c) {
    const auto saved = saved_head(saved_, plan_, in_.H, slice_.sequence, chunk_.h);
    const float* states = saved.states + c * plan_.state_size;
    const float* errors = saved.errors + c * plan_.errors_size;
    find_dbeta(errors, d_updates(c));
    transpose_panels(errors, d_updates(c));
    find_d_products(errors);
    find_dk(states, d_state(chunk_.h, c + 1));
    find_dq(states);
    transpose<false, true>(dk_t_, C, in_.K, chunk_.steps, out_.dk + chunk_.rows.step_row * in_.K,
                           in_.H * in_.K);
    transpose<false, true>(dq_t_, Q, in_.K, chunk_.num_queries,
                           out_.dq + chunk_.rows.query_row * in_.K, in_.H * in_.K);
    if (chunk_.gated()) find_dlog_gate(states, d_state(chunk_.h, c + 1));
  }

  HWY_NOINLINE void find_dbeta(const float* errors, const float* d_updates) {
    float* dbeta = out_.dbeta + chunk_.rows.step_row;
    for (size_t i = 0; i < chunk_.steps; ++i) {
      Vec sum = hn::Zero(kTag);
      for (size_t p = 0; p < plan_.panels; ++p) {
        Vec e[kVecs], x[kVecs];
        load_row(e, errors + (p * C + i) * kPanel);
        load_row(x, d_updates + (p * C + i) * kPanel);
        DP_UNROLL for (size_t v = 0; v < kVecs; ++v) sum = hn::MulAdd(e[v], x[v], sum);
      }
      dbeta[i * in_.H] = hn::GetLane(hn::SumOfLanes(kTag, sum));
    }
  }

  // Steps (or queries) along the lanes: updates_t [V][C] = U^T, minus_d_values_t = -dV^T, d_o_t [V][Q].
  HWY_NOINLINE void transpose_panels(const float* errors, const float* d_updates) {
    const size_t steps = chunk_.steps, queries = chunk_.num_queries;
    for (size_t i = 0; i < steps; ++i) minus_beta_[i] = -chunk_.beta[i];
    for (size_t p = 0; p < plan_.panels; ++p) {
      const size_t row = p * kPanel;
      transpose<true>(errors + row * C, kPanel, steps, kPanel, updates_t_ + row * C, C,
                      chunk_.beta);
      transpose<true>(d_updates + row * C, kPanel, steps, kPanel, minus_d_values_t_ + row * C, C,
                      minus_beta_);
      transpose(d_o_ + row * Q, kPanel, queries, kPanel, d_o_t_ + row * Q, Q);
    }
    // Columns beyond the last step or query are never stored, but must not trap or be slow.
    clear_columns(updates_t_, C, steps, chunk_.padded_steps());
    clear_columns(minus_d_values_t_, C, steps, chunk_.padded_steps());
    clear_columns(d_o_t_, Q, queries, chunk_.padded_queries());
  }

  void clear_columns(float* per_value, size_t stride, size_t begin, size_t end) {
    for (size_t row = 0; begin < end && row < plan_.panels * kPanel; ++row)
      std::fill(per_value + row * stride + begin, per_value + row * stride + end, 0.0f);
  }

  // d_key_products[j][i] = gradient of k_j . k_i through L, symmetric; d_query_products[r][i] that of
  // q_r . k_i through P. When gated, also their part in the gradient of the log decays.
  HWY_NOINLINE void find_d_products(const float* errors) {
    for (size_t column = 0; column < chunk_.steps; column += kLanes) {
      const size_t above = std::min(chunk_.steps, column + kLanes) - 1;  // rows above the diagonal
      for_tiles<1>(above, [&](auto rows, size_t j) HWY_ATTR {
        Tile<rows(), 1> tile;
        set_zero(tile);
        for (size_t p = 0; p < plan_.panels; ++p)
          add_product(tile, errors + (p * C + j) * kPanel, kPanel,
                      minus_d_values_t_ + p * kPanel * C + column, C, kPanel);
        scale_rows(tile, chunk_.beta + j);
        store(tile, d_key_products_ + j * C + column, C);
      });
      const size_t unseeing = first_query_after(column);
      if (unseeing >= chunk_.num_queries) continue;
      for_tiles<1>(chunk_.num_queries - unseeing, [&](auto rows, size_t first) HWY_ATTR {
        const size_t r = unseeing + first;
        Tile<rows(), 1> tile;
        set_zero(tile);
        for (size_t p = 0; p < plan_.panels; ++p)
          add_product(tile, d_o_ + (p * Q + r) * kPanel, kPanel,
                      updates_t_ + p * kPanel * C + column, C, kPanel);
        store(tile, d_query_products_ + r * C + column, C);
      });
    }
    clear_unseen(d_query_products_);
    if (chunk_.gated()) {
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

  // d_log[i]: gradient of the log of from_start[i]. A product of steps j < i (or of query r at step i
  // with step j) carries decay from_start[i] / from_start[j], so what one gains the other loses: in
  // double precision, because find_dlog_gate sums over both.
  void add_product_decays() {
    std::fill(d_log_.begin(), d_log_.end(), 0.0);
    for (size_t j = 0; j < chunk_.steps; ++j) {
      for (size_t i = j + 1; i < chunk_.steps; ++i) {
        const double z =
            static_cast<double>(d_key_products_[j * C + i]) * triangles_.keys_to_keys[j * C + i];
        d_log_[i] += z;
        d_log_[j] -= z;
      }
      for (size_t r = first_query_after(j); r < chunk_.num_queries; ++r) {
        const double z = static_cast<double>(d_query_products_[r * C + j]) *
                         triangles_.keys_to_queries[j * Q + r];
        d_log_[chunk_.query_step(r)] += z;
        d_log_[j] -= z;
      }
    }
  }

  // dk_t [K][C]
  HWY_NOINLINE void find_dk(const float* HWY_RESTRICT states, const float* HWY_RESTRICT d_states) {
    const size_t K = in_.K, panel_size = K * kPanel;
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
          add_product(tile, states + p * panel_size + d * kPanel, kPanel,
                      minus_d_values_t_ + p * kPanel * C + column, C, kPanel);
        if (chunk_.gated()) {
          scale_columns(tile, chunk_.from_start + column);
          add_column_dots(tile, chunk_.keys_t + d * C + column, C, d_log_from_start_ + column);
          store(tile, out, C);
          set_zero(tile);
        }
        for (size_t p = 0; p < plan_.panels; ++p)
          add_product(tile, d_states + p * panel_size + d * kPanel, kPanel,
                      updates_t_ + p * kPanel * C + column, C, kPanel);
        if (chunk_.gated()) {
          scale_columns(tile, chunk_.to_end + column);
          add_column_dots(tile, chunk_.keys_t + d * C + column, C, d_log_to_end_ + column);
          DP_FOR_TILE(r, c)
          tile.v[r][c] = hn::Add(tile.v[r][c], hn::LoadU(kTag, out + r * C + c * kLanes));
        }
        add_product(tile, chunk_.keys_t + d * C, C, d_key_products_ + column, C, chunk_.steps);
        add_product(tile, chunk_.queries_t + d * Q, Q, d_query_products_ + column, C,
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
    for_tiles<W>(in_.K, [&](auto rows, size_t d) HWY_ATTR {
      Tile<rows(), W> tile;
      set_zero(tile);
      for (size_t p = 0; p < plan_.panels; ++p)
        add_product(tile, states + (p * in_.K + d) * kPanel, kPanel,
                    d_o_t_ + p * kPanel * Q + column, Q, kPanel);
      if (chunk_.gated()) {
        scale_columns(tile, chunk_.query_from_start + column);
        add_column_dots(tile, chunk_.queries_t + d * Q + column, Q, d_log_queries_ + column);
      }
      add_product(tile, chunk_.keys_t + d * C, C, d_query_products_t_ + column, Q, chunk_.steps);
      scale_all(tile, in_.scale);
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
      if (step % in_.N == 0)
        out_.dlog_gate[(chunk_.first_token + step / in_.N) * in_.H + chunk_.h] =
            static_cast<float>(later);
    }
  }

  const DeltaProductInputs& in_;
  const ChunkPlan& plan_;
  const Slice slice_;
  const float* const saved_;
  const DeltaProductGradients& out_;
  const SweepBuffers* const buffers_;
  Scratch scratch_;
  Chunk chunk_;
  Triangles triangles_;
  RowPrefetcher prefetcher_;
  const size_t C, Q;
  float *decays_, *swap_;
  float *d_key_products_, *d_query_products_, *d_query_products_t_;
  float *d_o_, *d_o_t_, *d_values_, *minus_d_values_t_, *updates_t_;
  float *dk_t_, *dq_t_, *d_log_from_start_, *d_log_to_end_, *d_log_queries_, *minus_beta_;
  float *keys_from_start_, *queries_from_start_;
  std::vector<double> d_log_;
};

void chunk_backward_target(const DeltaProductInputs& inputs, const ChunkPlan& plan,
                           const Slice& slice, const BackwardWork& work, const float* saved,
                           const DeltaProductGradients& gradients, const SweepBuffers* buffers) {
  BackwardPass(inputs, plan, slice, saved, gradients, buffers).run(work);
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(chunk_backward_target);
void chunk_backward(const DeltaProductInputs& inputs, const ChunkPlan& plan, const Slice& slice,
                    const BackwardWork& work, const float* saved,
                    const DeltaProductGradients& gradients, const SweepBuffers* buffers) {
  HWY_DYNAMIC_DISPATCH(chunk_backward_target)(inputs, plan, slice, work, saved, gradients, buffers);
}
}  // namespace dp
#endif
