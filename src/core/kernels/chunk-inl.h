// One chunk of one head, packed for products: keys, queries and decays; the products of keys and queries; panels.
// Forward and backward share this; derivation in docs/math/chunk.md.
#if defined(DP_KERNELS_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_CHUNK_INL_H_
#undef DP_KERNELS_CHUNK_INL_H_
#else
#define DP_KERNELS_CHUNK_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/chunk_plan.h"
#include "kernels/prefetch-inl.h"
#include "kernels/scratch.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {

/// out[r] = 1 / sqrt(|row r|^2 + 1e-6). A square that overflows float32 does not overflow double.
HWY_NOINLINE inline void compute_inverse_norms(const float* HWY_RESTRICT rows, size_t stride,
                                               size_t count, size_t K, float* HWY_RESTRICT out) {
  for (size_t r = 0; r < count; ++r, rows += stride) {
    Vec sums[2] = {hn::Zero(kTag), hn::Zero(kTag)};
    size_t d = 0;
    for (; d + 2 * kLanes <= K; d += 2 * kLanes) {
      DP_FOR (part, 2) {
        const Vec x = hn::LoadU(kTag, rows + d + part * kLanes);
        sums[part] = hn::MulAdd(x, x, sums[part]);
      }
    }
    double sum = hn::GetLane(hn::SumOfLanes(kTag, hn::Add(sums[0], sums[1])));
    for (; d < K; ++d) sum += double{rows[d]} * rows[d];
    if (HWY_UNLIKELY(!std::isfinite(sum))) {
      sum = 0;
      for (d = 0; d < K; ++d) sum += double{rows[d]} * rows[d];
    }
    out[r] = static_cast<float>(1 / std::sqrt(sum + 1e-6));
  }
}

/// Chunk-local names: i, j steps; r a query, i.e. a token whose last step lies in this chunk.
/// a_i is the decay applied before step i: the gate at a token's first step, 1 elsewhere.
/// select_chunk(), then a load_head_*() for each head; the accessors speak of the head that was loaded last.
class Chunk {
 public:
  Chunk(const DeltaProductInputs& inputs, size_t sequence, size_t C)
      : in(inputs),
        C(C),
        Q(query_capacity(inputs, C)),
        sequence_(sequence),
        first_query_after_(C),
        query_step_(Q),
        gate_step_(Q) {}

  void lay_out(ScratchLayout& layout) {
    keys_ = layout.take(C * in.K + kPadding);
    queries_ = layout.take(Q * in.K + kPadding);
    keys_t_ = layout.take(C * in.K);
    queries_t_ = layout.take(Q * in.K);
    for (float** steps : {&beta_, &decay_, &from_start_, &to_end_}) *steps = layout.take(C);
    for (float** queries : {&query_from_start_, &scales_}) *queries = layout.take(Q);
    if (!in.normalise) return;
    key_norms_ = layout.take(C), query_norms_ = layout.take(Q);
  }

  /// Selects chunk number c of the sequence; no head is loaded yet.
  void select_chunk(size_t c) {
    rows_ = ChunkRows(in, C, sequence_, c, head_);
    first_gate_row_ = (in.first_token(sequence_) + ceil_div(rows_.begin, in.N)) * in.H;
    num_gates_ = 0;
    size_t query = 0, factor = rows_.begin % in.N;  // of step i: the first query that sees it, its
    for (size_t i = 0; i < steps(); ++i) {          // place in the token
      first_query_after_[i] = query;
      if (factor == 0) gate_step_[num_gates_++] = i;
      if (++factor < in.N) continue;
      factor = 0;
      query_step_[query++] = i;
    }
    for (size_t i = steps(); i < padded_steps(); ++i) beta_[i] = 0;
    std::fill(scales_, scales_ + num_queries(), in.scale);
  }

  /// beta, decays, keys_t and queries.
  void load_head_for_forward(size_t head) {
    load_head(head);
    load_keys_t();
    load_queries();
  }
  /// beta, decays, keys and queries; when gated keys_t and queries_t too.
  void load_head_for_backward(size_t head) {
    load_head(head);
    scale_rows(key_rows(), in.k_step(), steps(), in.K, key_norms_, keys_);
    load_queries();
    if (!gated()) return;
    load_keys_t();
    transpose<true>(query_rows(), in.q_step(), num_queries(), in.K, queries_t_, Q, scales_);
    clear_columns(queries_t_, Q, num_queries(), padded_queries());
  }

  size_t head() const { return head_; }
  const ChunkRows& rows() const { return rows_; }
  size_t steps() const { return rows_.steps; }
  size_t num_queries() const { return rows_.num_queries; }
  size_t padded_steps() const { return round_up(steps(), kPanel); }
  size_t padded_queries() const { return round_up(num_queries(), kLanes); }
  bool gated() const { return in.log_gate != nullptr; }
  /// The head's rows as they were given, in.k_step() and in.q_step() floats apart.
  const float* key_rows() const { return in.k + rows_.at_step(in.k_step(), in.K); }
  const float* query_rows() const { return in.q + rows_.at_query(in.q_step(), in.K); }
  /// What they are multiplied with to have unit length, only if in.normalise: [C], [Q].
  const float* key_norms() const { return key_norms_; }
  const float* query_norms() const { return query_norms_; }
  /// The first query that sees step i; it may be beyond the chunk.
  size_t first_query_after(size_t i) const { return first_query_after_[i]; }
  /// The last step that query r sees.
  size_t query_step(size_t r) const { return query_step_[r]; }
  /// The chunk's gates: the step before which gate g decays the state, and its index in log_gate.
  size_t num_gates() const { return num_gates_; }
  size_t gate_step(size_t g) const { return gate_step_[g]; }
  size_t gate_row(size_t g) const { return first_gate_row_ + g * in.H + head_; }

  const float* keys() const { return keys_; }            // [C,K]
  const float* queries() const { return queries_; }      // [Q,K], times scale
  const float* keys_t() const { return keys_t_; }        // [K,C]; zero from steps to padded_steps
  const float* queries_t() const { return queries_t_; }  // [K,Q], times scale, padded likewise
  const float* beta() const { return beta_; }            // [C], padded likewise
  // Decays, only when gated; all are products of gates, so never above 1 for gates <= 0, and a gate
  // of exactly 0 (log_gate = -inf) gives 0 where differences of cumulative logs would give NaN.
  const float* decay() const { return decay_; }            // [C] a_i
  const float* from_start() const { return from_start_; }  // [C] a_0 ... a_i
  const float* to_end() const { return to_end_; }          // [C] a_{i+1} ... a_{steps-1}
  const float* query_from_start() const { return query_from_start_; }  // [Q] at each query's step
  /// Product of all decays of the chunk.
  float total_decay() const { return gated() ? from_start_[steps() - 1] : 1.0f; }

  const DeltaProductInputs& in;
  const size_t C, Q;  // room for so many steps, and queries

 private:
  // Rows of keys and queries may be read in whole panels: this much beyond the last of them.
  static constexpr size_t kPadding = kTilePanels * kPanel;

  // Queries of a chunk, rounded up to a panel; or to half a panel if that is a vector or more.
  static size_t query_capacity(const DeltaProductInputs& in, size_t C) {
    constexpr size_t kHalf = HWY_MAX(kPanel / 2, kLanes);
    const size_t queries = ceil_div(C, in.N);
    return round_up(queries, queries <= kHalf ? kHalf : kPanel);
  }

  void load_head(size_t head) {
    rows_.head = head_ = head;
    const float* const beta = in.beta + rows_.at_step(in.H, 1);
    for (size_t i = 0; i < steps(); ++i) beta_[i] = beta[i * in.H];
    if (gated()) compute_decays();
    if (!in.normalise) return;
    compute_inverse_norms(key_rows(), in.k_step(), steps(), in.K, key_norms_);
    compute_inverse_norms(query_rows(), in.q_step(), num_queries(), in.K, query_norms_);
    for (size_t r = 0; r < num_queries(); ++r) scales_[r] = in.scale * query_norms_[r];
  }
  void load_queries() {
    scale_rows(query_rows(), in.q_step(), num_queries(), in.K, scales_, queries_);
  }
  void load_keys_t() {
    if (in.normalise)
      transpose<true>(key_rows(), in.k_step(), steps(), in.K, keys_t_, C, key_norms_);
    else
      transpose(key_rows(), in.k_step(), steps(), in.K, keys_t_, C);
    clear_columns(keys_t_, C, steps(), padded_steps());
  }

  void clear_columns(float* matrix_t, size_t stride, size_t begin, size_t end) const {
    for (size_t d = 0; begin < end && d < in.K; ++d)
      std::fill(matrix_t + d * stride + begin, matrix_t + d * stride + end, 0.0f);
  }

  void compute_decays() {
    const size_t n = steps();
    std::fill(decay_, decay_ + n, 1.0f);
    for (size_t g = 0; g < num_gates_; ++g)
      decay_[gate_step(g)] = std::exp(in.log_gate[gate_row(g)]);
    from_start_[0] = decay_[0];
    for (size_t i = 1; i < n; ++i) from_start_[i] = from_start_[i - 1] * decay_[i];
    to_end_[n - 1] = 1;
    for (size_t i = n - 1; i-- > 0;) to_end_[i] = to_end_[i + 1] * decay_[i + 1];
    for (size_t i = n; i < padded_steps(); ++i) decay_[i] = from_start_[i] = to_end_[i] = 0;
    for (size_t r = 0; r < num_queries(); ++r) query_from_start_[r] = from_start_[query_step(r)];
    for (size_t r = num_queries(); r < padded_queries(); ++r) query_from_start_[r] = 0;
  }

  const size_t sequence_;
  size_t head_ = 0, first_gate_row_ = 0, num_gates_ = 0;
  ChunkRows rows_;
  std::vector<size_t> first_query_after_, query_step_, gate_step_;  // [C] [Q] [Q]
  float *keys_, *queries_, *keys_t_, *queries_t_;
  float *beta_, *decay_, *from_start_, *to_end_, *query_from_start_;
  float*
      scales_;  // [Q] what queries are multiplied with: the scale, and the inverse norm if there is one
  float *key_norms_ = nullptr, *query_norms_ = nullptr;  // [C] [Q] inverse norms
};

/// out[i][j] = a_{j+1} ... a_i, the decay from step j to step i, for j <= i; elsewhere unspecified. [C,C]
inline void compute_decays_between(const Chunk& chunk, float* HWY_RESTRICT out) {
  std::memset(out, 0, chunk.padded_steps() * sizeof(float));
  out[0] = 1;
  for (size_t i = 1; i < chunk.steps(); ++i) {
    const float* before = out;
    out += chunk.C;
    const Vec factor = hn::Set(kTag, chunk.decay()[i]);
    for (size_t j = 0; j < chunk.padded_steps(); j += kLanes)
      hn::StoreU(hn::Mul(factor, hn::LoadU(kTag, before + j)), kTag, out + j);
    out[i] = 1;
  }
}

/// Products of a chunk's keys and queries with earlier keys, decayed: L and P of docs/math/chunk.md. A row never uses what
/// comes after it, not even multiplied by zero, so a NaN there cannot reach it.
class ChunkProducts {
 public:
  explicit ChunkProducts(const Chunk& chunk) : chunk_(chunk) {}

  void lay_out(ScratchLayout& layout) {
    const size_t C = chunk_.C;
    beta_keys_ = layout.take(C * C), beta_queries_ = layout.take(chunk_.Q * C);
    keys_ = layout.take(C * C), queries_ = layout.take(chunk_.Q * C);
    decays_ = layout.take(C * C);
  }

  /// Of the head that is loaded; also to `saved`, for the backward pass, unless its pointers are null.
  void compute(const SavedChunk<float>& saved, bool streaming) {
    // Streaming stores write whole cache lines. Where a vector is less than one, lines are put together in scratch first.
    const bool save = saved.key_products != nullptr, directly = kLanes == kPanel || !streaming;
    float* const keys = !save ? nullptr : directly ? saved.key_products : keys_;
    float* const queries = !save ? nullptr : directly ? saved.query_products : queries_;
    const size_t C = chunk_.C, K = chunk_.in.K, steps = chunk_.steps();
    if (chunk_.gated()) compute_decays_between(chunk_, decays_);
    for (size_t j = 0; j < steps; j += kLanes) {
      const float* const earlier = chunk_.keys_t() + j;
      compute_rows(
          j + 1, steps, j, [](size_t i) { return i; },
          [&](auto& tile, size_t i)
              HWY_ATTR { add_product_t(tile, chunk_.keys_t() + i, C, earlier, C, K); },
          beta_keys_, keys, directly && streaming);
      compute_rows(
          chunk_.first_query_after(j), chunk_.num_queries(), j,
          [&](size_t r) { return chunk_.query_step(r); },
          [&](auto& tile, size_t r)
              HWY_ATTR { add_product(tile, chunk_.queries() + r * K, K, earlier, C, K); },
          beta_queries_, queries, directly && streaming);
    }
    if (!save || directly) return;
    for (size_t i = 1; i < steps; ++i) stream_row(keys_, saved.key_products, i, i);
    for (size_t r = 0; r < chunk_.num_queries(); ++r)
      stream_row(queries_, saved.query_products, r, chunk_.query_step(r) + 1);
  }

  /// [C,C] [i][j] = L_ij beta_j for j < i, elsewhere unspecified.
  const float* beta_keys() const { return beta_keys_; }
  /// [Q,C] [r][j] = P_rj beta_j for the steps j that query r sees.
  const float* beta_queries() const { return beta_queries_; }

 private:
  // Rows [begin, end) of one vector of columns from j on. add(tile, row) sums products, row_step(row) is the row's step.
  template <class RowStep, class Add>
  HWY_INLINE void compute_rows(size_t begin, size_t end, size_t j, const RowStep& row_step,
                               const Add& add, float* HWY_RESTRICT scaled,
                               float* HWY_RESTRICT plain, bool stream_plain) const {
    if (begin >= end) return;
    const size_t C = chunk_.C;
    for_tiles<1, kMaxNarrowRows>(end - begin, [&](auto rows, size_t first) HWY_ATTR {
      constexpr size_t R = rows();
      const size_t row = begin + first;
      Tile<R, 1> tile;
      set_zero(tile);
      add(tile, row);
      if (chunk_.gated()) {
        DP_FOR (r, R)
          tile.v[r][0] =
              hn::Mul(tile.v[r][0], hn::LoadU(kTag, decays_ + row_step(row + r) * C + j));
      }
      if (plain != nullptr) {
        DP_FOR (r, R) store(tile.v[r][0], plain + (row + r) * C + j, stream_plain);
      }
      scale_columns(tile, chunk_.beta() + j);
      store(tile, scaled + row * C + j, C);
    });
  }

  // Streams whole cache lines of a row, enough for its first `columns`.
  void stream_row(const float* HWY_RESTRICT from, float* HWY_RESTRICT to, size_t row,
                  size_t columns) const {
    for (size_t x = row * chunk_.C, end = x + round_up(columns, kPanel); x < end; x += kLanes)
      hn::Stream(hn::LoadU(kTag, from + x), kTag, to + x);
  }

  const Chunk& chunk_;
  float *beta_keys_, *beta_queries_;
  float *keys_, *queries_, *decays_;  // L [C,C], P [Q,C]; [C,C]
};

/// Whether an array of `rows` rows of `width` floats is better written with streaming (non-temporal) stores: it is read only
/// when all of it is written, so if it is larger than the caches it would displace what is needed sooner, and an
/// ordinary store would first read the line it overwrites.
/// Steps, or tokens, of such rows may be `pitch` apart.
inline bool should_stream(const float* array, size_t width, size_t rows, size_t pitch = 0) {
  constexpr size_t kLargeBytes = size_t{4} << 20;
  return reinterpret_cast<uintptr_t>(array) % (kPanel * sizeof(float)) == 0 &&
         width % kPanel == 0 && pitch % kPanel == 0 && rows * width * sizeof(float) >= kLargeBytes;
}

/// Rows of a [rows, V] matrix with the given stride, columns of panel p, as a zero-padded [rows,16].
inline void pack_panel(const float* HWY_RESTRICT from, size_t stride, size_t rows, size_t V,
                       size_t p, float* HWY_RESTRICT to) {
  const size_t columns = std::min(kPanel, V - p * kPanel);
  from += p * kPanel;
  for (size_t i = 0; i < rows; ++i, from += stride, to += kPanel) {
    if (columns == kPanel) {
      Vec row[kVecs];
      load_row(row, from);
      for (size_t c = 0; c < kVecs; ++c) hn::StoreU(row[c], kTag, to + c * kLanes);
    } else {
      std::memcpy(to, from, columns * sizeof(float));
      std::memset(to + columns, 0, (kPanel - columns) * sizeof(float));
    }
  }
}

/// The inverse of pack_panel.
inline void unpack_panel(const float* HWY_RESTRICT from, size_t rows, size_t V, size_t p,
                         float* HWY_RESTRICT to, size_t stride) {
  const size_t columns = std::min(kPanel, V - p * kPanel);
  to += p * kPanel;
  for (size_t i = 0; i < rows; ++i, from += kPanel, to += stride) {
    if (columns == kPanel) {
      Vec row[kVecs];
      load_row(row, from);
      for (size_t c = 0; c < kVecs; ++c) hn::StoreU(row[c], kTag, to + c * kLanes);
    } else {
      std::memcpy(to, from, columns * sizeof(float));
    }
  }
}

/// Panels [panel_begin, panel_end) of a [K,V] matrix, or of zeros if it is null, into panel layout.
inline void pack_state(const float* HWY_RESTRICT state, size_t K, size_t V, size_t panel_begin,
                       size_t panel_end, float* HWY_RESTRICT panels) {
  for (size_t p = panel_begin; p < panel_end; ++p) {
    float* out = panels + p * K * kPanel;
    if (state == nullptr) {
      std::memset(out, 0, K * kPanel * sizeof(float));
    } else {
      pack_panel(state, V, K, V, p, out);
    }
  }
}

/// The inverse of pack_state.
inline void unpack_state(const float* HWY_RESTRICT panels, size_t K, size_t V, size_t panel_begin,
                         size_t panel_end, float* HWY_RESTRICT state) {
  for (size_t p = panel_begin; p < panel_end; ++p)
    unpack_panel(panels + p * K * kPanel, K, V, p, state, V);
}

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // DP_KERNELS_CHUNK_INL_H_
