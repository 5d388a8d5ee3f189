// One chunk of one head made ready for products: its keys and queries, transposed, and its decays.
// Forward and backward share this; derivation in docs/math/chunk.md.
#if defined(DP_KERNELS_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_CHUNK_INL_H_
#undef DP_KERNELS_CHUNK_INL_H_
#else
#define DP_KERNELS_CHUNK_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/chunk_plan.h"
#include "kernels/scratch.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {

/// Fetches memory into the cache a few lines at a time, between tiles: all at once, it would stall as a
/// miss does.
class Prefetcher {
 public:
  void clear() { sets_ = set_ = total_ = 0; }

  /// `count` rows of `width` floats, each `stride` floats after the one before.
  void add(const float* begin, size_t stride, size_t width, size_t count) {
    if (width == stride) width *= std::exchange(count, 1);
    if (count == 0 || width == 0 || sets_ == kMaxSets) return;
    const size_t lines = (width + kLine - 1) / kLine;
    rows_[sets_++] = {begin, lines, lines, stride - lines * kLine, count};
    total_ += count * lines;
  }

  /// Spreads all lines over about so many calls of advance().
  void start(size_t calls) { lines_per_call_ = total_ / calls + 1; }

  HWY_INLINE void advance() {
    if (set_ < sets_) fetch();
  }

 private:
  HWY_NOINLINE void fetch() {
    for (size_t lines = lines_per_call_; lines > 0 && set_ < sets_;) {
      Rows& rows = rows_[set_];
      const size_t run = std::min(lines, rows.left);
      for (size_t i = 0; i < run; ++i)
        __builtin_prefetch(rows.next + i * kLine, 0, 2);  // into the second-level cache
      rows.next += run * kLine;
      rows.left -= run;
      lines -= run;
      if (rows.left > 0) continue;
      rows.next += rows.gap;
      rows.left = rows.lines;
      set_ += --rows.count == 0;
    }
  }

  static constexpr size_t kLine = 64 / sizeof(float), kMaxSets = 8;
  struct Rows {
    const float* next;
    size_t left, lines;  // of this row, of each row
    size_t gap;          // floats from the last line's end to the next row; it wraps around
    size_t count;        // rows left
  };
  Rows rows_[kMaxSets];
  size_t sets_ = 0, set_ = 0, total_ = 0, lines_per_call_ = 0;
};

/// Two that advance together: what the next chunk needs, of all heads, and what the next head needs.
/// The less waits in the second-level cache, the less is evicted before its turn.
struct ChunkPrefetcher {
  Prefetcher next_chunk, next_head;

  HWY_INLINE void advance() {
    next_chunk.advance();
    next_head.advance();
  }
};

/// The rows of one head in one chunk: of k, v and beta from step_row on, of q and o from query_row on.
struct ChunkRows {
  ChunkRows(const DeltaProductInputs& in, size_t first_token, size_t num_steps, size_t C, size_t c,
            size_t h)
      : begin(c * C),
        steps(std::min(C, num_steps - begin)),
        first_query(begin / in.N),  // the first token whose last step is not before the chunk
        num_queries((begin + steps) / in.N - first_query),
        step_row((first_token * in.N + begin) * in.H + h),
        query_row((first_token + first_query) * in.H + h) {}

  size_t begin, steps, first_query, num_queries, step_row, query_row;
};

/// Chunk-local names: i, j steps; r a query, i.e. a token whose last step lies in this chunk.
/// a_i is the decay applied before step i: the gate at a token's first step, 1 elsewhere.
struct Chunk {
  // Queries of a chunk, rounded up to a panel; or to half a panel if that is a vector or more.
  static size_t query_capacity(const DeltaProductInputs& in, size_t C) {
    constexpr size_t kHalf = HWY_MAX(kPanel / 2, kLanes);
    const size_t queries = (C + in.N - 1) / in.N;
    return round_up(queries, queries <= kHalf ? kHalf : kPanel);
  }

  static size_t scratch_size(const DeltaProductInputs& in, size_t C) {
    return 2 * (Scratch::rounded(C * in.K) + Scratch::rounded(query_capacity(in, C) * in.K)) +
           5 * Scratch::rounded(C + kPanel) + Scratch::rounded(query_capacity(in, C));
  }

  Chunk(const DeltaProductInputs& inputs, size_t sequence, size_t C, Scratch& scratch)
      : in(inputs),
        C(C),
        Q(query_capacity(inputs, C)),
        first_token(static_cast<size_t>(inputs.offsets[sequence])),
        num_steps(static_cast<size_t>(inputs.offsets[sequence + 1] - inputs.offsets[sequence]) *
                  inputs.N),
        keys(scratch.take(C * inputs.K)),
        queries(scratch.take(Q * inputs.K)),
        keys_t(scratch.take(C * inputs.K)),
        queries_t(scratch.take(Q * inputs.K)),
        beta(scratch.take(C)),
        decay(scratch.take(C + kPanel)),
        from_start(scratch.take(C)),
        to_end(scratch.take(C)),
        query_from_start(scratch.take(Q)),
        scales(scratch.take(Q)),
        first_query_after_(C) {
    std::fill(scales, scales + Q, inputs.scale);
  }

  /// Turns to chunk number c of one head; its keys and queries are packed by what follows.
  void prepare(size_t c, size_t head) {
    h = head;
    rows = ChunkRows(in, first_token, num_steps, C, c, h);
    begin = rows.begin;
    steps = rows.steps;
    num_queries = rows.num_queries;
    for (size_t i = 0; i < steps; ++i) beta[i] = in.beta[rows.step_row + i * in.H];
    for (size_t i = steps; i < padded_steps(); ++i) beta[i] = 0;
    size_t query = 0,
           factor =
               begin % in.N;  // of step i: the first query that sees it, its place in the token
    for (size_t i = 0; i < steps; ++i) {
      first_query_after_[i] = query;
      if (++factor == in.N) factor = 0, ++query;
    }
    if (gated()) find_decays();
  }

  void pack_rows() {
    const size_t stride = in.H * in.K;
    scale_rows(in.k + rows.step_row * in.K, stride, steps, in.K, nullptr, keys);
    scale_rows(in.q + rows.query_row * in.K, stride, num_queries, in.K, scales, queries);
  }

  void pack_columns() {
    const size_t stride = in.H * in.K;
    transpose(in.k + rows.step_row * in.K, stride, steps, in.K, keys_t, C);
    transpose<true>(in.q + rows.query_row * in.K, stride, num_queries, in.K, queries_t, Q, scales);
    clear_columns(keys_t, C, steps, padded_steps());
    clear_columns(queries_t, Q, num_queries, padded_queries());
  }

  bool gated() const { return in.log_gate != nullptr; }
  size_t padded_steps() const { return round_up(steps, kPanel); }
  size_t padded_queries() const { return round_up(num_queries, kLanes); }
  /// The first query that sees step i; it may be beyond the chunk.
  size_t first_query_after(size_t i) const { return first_query_after_[i]; }
  /// The last step that query r sees.
  size_t query_step(size_t r) const { return (rows.first_query + r + 1) * in.N - 1 - begin; }
  /// Product of all decays of the chunk.
  float total_decay() const { return gated() ? from_start[steps - 1] : 1.0f; }

  const DeltaProductInputs& in;
  const size_t C, Q;  // capacities: steps, and queries rounded up to a panel
  const size_t first_token, num_steps;
  size_t h = 0, begin = 0, steps = 0, num_queries = 0;
  ChunkRows rows{in, 0, 0, 1, 0, 0};
  float* const keys;     // [C,K], by pack_rows()
  float* const queries;  // [Q,K], times scale, likewise
  float* const
      keys_t;  // [K,C], by pack_columns(); columns beyond `steps` are zero up to padded_steps()
  float* const queries_t;  // [K,Q], times scale, likewise
  float* const beta;       // [C]
  // Decays, only when gated; all are products of gates, so never above 1 for gates <= 0, and a gate
  // of exactly 0 (log_gate = -inf) gives 0 where differences of cumulative logs would give NaN.
  float* const decay;             // [C+kPanel] a_i
  float* const from_start;        // [C] a_0 ... a_i
  float* const to_end;            // [C] a_{i+1} ... a_{steps-1}
  float* const query_from_start;  // [Q] from_start of each query's last step

  float* const scales;  // [Q] the same scale for every query

 private:
  void clear_columns(float* matrix_t, size_t stride, size_t begin, size_t end) const {
    for (size_t d = 0; begin < end && d < in.K; ++d)
      std::fill(matrix_t + d * stride + begin, matrix_t + d * stride + end, 0.0f);
  }

  void find_decays() {
    const float* gates = in.log_gate + first_token * in.H + h;
    for (size_t i = 0; i < steps; ++i) {
      const size_t step = begin + i;
      decay[i] = step % in.N == 0 ? std::exp(gates[step / in.N * in.H]) : 1.0f;
      from_start[i] = i == 0 ? decay[0] : from_start[i - 1] * decay[i];
    }
    to_end[steps - 1] = 1;
    for (size_t i = steps - 1; i-- > 0;) to_end[i] = to_end[i + 1] * decay[i + 1];
    for (size_t i = steps; i < padded_steps(); ++i) decay[i] = from_start[i] = to_end[i] = 0;
    for (size_t r = 0; r < num_queries; ++r) query_from_start[r] = from_start[query_step(r)];
    for (size_t r = num_queries; r < padded_queries(); ++r) query_from_start[r] = 0;
  }

  std::vector<size_t> first_query_after_;  // [C]
};

/// Decays from step j (row) to later moments (columns): out[j][m] is the product of all decays after
/// step j up to moment m, 1 at m's own step, 0 where m comes before j. Moments are the steps
/// themselves (per_query false) or the queries' last steps.
inline void find_decays_between(const Chunk& chunk, bool per_query, float* HWY_RESTRICT out,
                                size_t stride) {
  const size_t columns = per_query ? chunk.padded_queries() : chunk.padded_steps();
  size_t next_query =
      chunk.num_queries;  // queries at or after this one are already in the rows below
  for (size_t j = chunk.steps; j-- > 0;) {
    float* row = out + j * stride;
    if (j + 1 == chunk.steps) {
      std::memset(row, 0, columns * sizeof(float));
    } else {
      const Vec factor = hn::Set(kTag, chunk.decay[j + 1]);
      for (size_t m = 0; m < columns; m += kLanes)
        hn::StoreU(hn::Mul(factor, hn::LoadU(kTag, row + stride + m)), kTag, row + m);
    }
    if (!per_query) {
      row[j] = 1;
    } else if (next_query > 0 && chunk.query_step(next_query - 1) == j) {
      row[--next_query] = 1;
    }
  }
}

/// Products of a chunk's keys with its later keys and queries, decayed. Only what comes after is ever
/// computed or read, so nothing that happens late can touch what is early, not even as 0 x NaN.
class Triangles {
 public:
  static size_t scratch_size(const DeltaProductInputs& in, size_t C) {
    const size_t Q = Chunk::query_capacity(in, C);
    return Scratch::rounded(C * C) + Scratch::rounded(C * Q) + Scratch::rounded(C * std::max(C, Q));
  }

  Triangles(const Chunk& chunk, Scratch& scratch)
      : keys_to_keys(scratch.take(chunk.C * chunk.C)),
        keys_to_queries(scratch.take(chunk.C * chunk.Q)),
        chunk_(chunk),
        decays_(scratch.take(chunk.C * std::max(chunk.C, chunk.Q))) {}

  void find() {
    const size_t C = chunk_.C, Q = chunk_.Q, queries = chunk_.num_queries;
    for (size_t i = 0; i < chunk_.steps; i += kLanes)
      find_products(chunk_.keys_t + i, C, std::min(chunk_.steps, i + kLanes) - 1, keys_to_keys + i);
    for (size_t r = 0; r < queries; r += kLanes)
      find_products(chunk_.queries_t + r, Q,
                    chunk_.query_step(std::min(queries, r + kLanes) - 1) + 1, keys_to_queries + r);
    if (!chunk_.gated()) return;
    find_decays_between(chunk_, false, decays_, C);
    multiply(C, chunk_.padded_steps(), keys_to_keys);
    find_decays_between(chunk_, true, decays_, Q);
    multiply(Q, chunk_.padded_queries(), keys_to_queries);
  }

  /// Copies them to where the backward pass will look for them.
  void save(const SavedChunk<float>& to, size_t query_stride, bool aligned) const {
    constexpr size_t kStep = HWY_MIN(kLanes, kPanel / 2);
    const hn::FixedTag<float, kStep> d;
    const size_t C = chunk_.C;
    const auto copy = [&](const float* from, size_t begin, size_t end, float* out) HWY_ATTR {
      for (size_t x = begin; x < end; x += kStep)
        stream(hn::LoadU(d, from + x), d, out + x, aligned);
    };
    for (size_t j = 0; j < chunk_.steps; ++j) {
      copy(keys_to_keys + j * C, 0, C, to.keys_to_keys + j * C);
      copy(keys_to_queries + j * chunk_.Q, 0, query_stride, to.keys_to_queries + j * query_stride);
    }
  }

  float* const keys_to_keys;     // [C,C] [j][i] = decay k_j . k_i for i > j, elsewhere unspecified
  float* const keys_to_queries;  // [C,Q] [j][r] = decay k_j . q_r for queries r that see step j

 private:
  // out[j][..] = k_j . b for j < count and one vector of columns of b_t
  void find_products(const float* b_t, size_t stride, size_t count, float* out) const {
    for_tiles<1>(count, [&](auto rows, size_t j) HWY_ATTR {
      Tile<rows(), 1> tile;
      set_zero(tile);
      add_product_t(tile, chunk_.keys_t + j, chunk_.C, b_t, stride, chunk_.in.K);
      store(tile, out + j * stride, stride);
    });
  }

  void multiply(size_t stride, size_t columns, float* out) const {
    for (size_t j = 0; j < chunk_.steps; ++j)
      for (size_t m = j * stride; m < j * stride + columns; m += kLanes)
        hn::StoreU(hn::Mul(hn::LoadU(kTag, decays_ + m), hn::LoadU(kTag, out + m)), kTag, out + m);
  }

  const Chunk& chunk_;
  float* const decays_;  // [C,max(C,Q)]
};

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
