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
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/chunk_plan.h"
#include "kernels/prefetch-inl.h"
#include "kernels/scratch.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {

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
    return Scratch::rounded(C * in.K) + Scratch::rounded(query_capacity(in, C) * in.K) +
           Scratch::rounded(C * in.K + kPadding) +
           Scratch::rounded(query_capacity(in, C) * in.K + kPadding) + 4 * Scratch::rounded(C) +
           2 * Scratch::rounded(query_capacity(in, C));
  }

  Chunk(const DeltaProductInputs& inputs, size_t sequence, size_t C, Scratch& scratch)
      : in(inputs),
        C(C),
        Q(query_capacity(inputs, C)),
        first_token(static_cast<size_t>(inputs.offsets[sequence])),
        num_steps(static_cast<size_t>(inputs.offsets[sequence + 1] - inputs.offsets[sequence]) *
                  inputs.N),
        keys(scratch.take(C * inputs.K + kPadding)),
        queries(scratch.take(Q * inputs.K + kPadding)),
        keys_t(scratch.take(C * inputs.K)),
        queries_t(scratch.take(Q * inputs.K)),
        beta(scratch.take(C)),
        decay(scratch.take(C)),
        from_start(scratch.take(C)),
        to_end(scratch.take(C)),
        query_from_start(scratch.take(Q)),
        scales(scratch.take(Q)),
        first_query_after_(C),
        query_step_(Q),
        gate_step_(Q) {
    std::fill(scales, scales + Q, inputs.scale);
  }

  /// Turns to chunk number c, for any head.
  void turn_to(size_t c) {
    rows = ChunkRows(in, first_token, num_steps, C, c, h);
    begin = rows.begin;
    steps = rows.steps;
    num_queries = rows.num_queries;
    first_gate = (begin + in.N - 1) / in.N;
    num_gates = 0;
    size_t query = 0, factor = begin % in.N;  // of step i: the first query that sees it, its place
    for (size_t i = 0; i < steps; ++i) {      // in the token
      first_query_after_[i] = query;
      if (factor == 0) gate_step_[num_gates++] = i;
      if (++factor < in.N) continue;
      factor = 0;
      query_step_[query++] = i;
    }
    for (size_t i = steps; i < padded_steps(); ++i) beta[i] = 0;
  }

  /// Turns to one head of that chunk; keys and queries are packed by what follows.
  void turn_to_head(size_t head) {
    rows.step_row += head - h;
    rows.query_row += head - h;
    h = head;
    for (size_t i = 0; i < steps; ++i) beta[i] = in.beta[rows.step_row + i * in.H];
    if (gated()) find_decays();
  }

  void pack_key_rows() {
    scale_rows(in.k + rows.step_row * in.K, in.H * in.K, steps, in.K, nullptr, keys);
  }
  void pack_query_rows() {
    scale_rows(in.q + rows.query_row * in.K, in.H * in.K, num_queries, in.K, scales, queries);
  }
  void pack_key_columns() {
    transpose(in.k + rows.step_row * in.K, in.H * in.K, steps, in.K, keys_t, C);
    clear_columns(keys_t, C, steps, padded_steps());
  }
  void pack_query_columns() {
    transpose<true>(in.q + rows.query_row * in.K, in.H * in.K, num_queries, in.K, queries_t, Q,
                    scales);
    clear_columns(queries_t, Q, num_queries, padded_queries());
  }

  // Rows of keys and queries may be read in whole panels: this much beyond the last of them.
  static constexpr size_t kPadding = kTilePanels * kPanel;

  bool gated() const { return in.log_gate != nullptr; }
  size_t padded_steps() const { return round_up(steps, kPanel); }
  size_t padded_queries() const { return round_up(num_queries, kLanes); }
  /// The first query that sees step i; it may be beyond the chunk.
  size_t first_query_after(size_t i) const { return first_query_after_[i]; }
  /// The last step that query r sees.
  size_t query_step(size_t r) const { return query_step_[r]; }
  /// The step before which gate g of the chunk decays the state, and where that gate is among all gates.
  size_t gate_step(size_t g) const { return gate_step_[g]; }
  size_t gate_row(size_t g) const { return (first_token + first_gate + g) * in.H + h; }
  /// Product of all decays of the chunk.
  float total_decay() const { return gated() ? from_start[steps - 1] : 1.0f; }

  const DeltaProductInputs& in;
  const size_t C, Q;  // capacities: steps, and queries rounded up to a panel
  const size_t first_token, num_steps;
  size_t h = 0, begin = 0, steps = 0, num_queries = 0, first_gate = 0, num_gates = 0;
  ChunkRows rows{in, 0, 0, 1, 0, 0};
  float* const keys;       // [C,K], by pack_key_rows()
  float* const queries;    // [Q,K], times scale, by pack_query_rows()
  float* const keys_t;     // [K,C], by pack_key_columns(); zero from `steps` to padded_steps()
  float* const queries_t;  // [K,Q], times scale, likewise by pack_query_columns()
  float* const beta;       // [C], likewise
  // Decays, only when gated; all are products of gates, so never above 1 for gates <= 0, and a gate
  // of exactly 0 (log_gate = -inf) gives 0 where differences of cumulative logs would give NaN.
  float* const decay;             // [C] a_i
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
    std::fill(decay, decay + steps, 1.0f);
    for (size_t g = 0; g < num_gates; ++g) decay[gate_step(g)] = std::exp(in.log_gate[gate_row(g)]);
    from_start[0] = decay[0];
    for (size_t i = 1; i < steps; ++i) from_start[i] = from_start[i - 1] * decay[i];
    to_end[steps - 1] = 1;
    for (size_t i = steps - 1; i-- > 0;) to_end[i] = to_end[i + 1] * decay[i + 1];
    for (size_t i = steps; i < padded_steps(); ++i) decay[i] = from_start[i] = to_end[i] = 0;
    for (size_t r = 0; r < num_queries; ++r) query_from_start[r] = from_start[query_step(r)];
    for (size_t r = num_queries; r < padded_queries(); ++r) query_from_start[r] = 0;
  }

  std::vector<size_t> first_query_after_, query_step_, gate_step_;  // [C] [Q] [Q]
};

/// out[i][j] = a_{j+1} ... a_i, the decay from step j to step i, for j <= i; elsewhere unspecified. [C,C]
inline void find_decays_between(const Chunk& chunk, float* HWY_RESTRICT out) {
  std::memset(out, 0, chunk.padded_steps() * sizeof(float));
  out[0] = 1;
  for (size_t i = 1; i < chunk.steps; ++i) {
    const float* before = out;
    out += chunk.C;
    const Vec factor = hn::Set(kTag, chunk.decay[i]);
    for (size_t j = 0; j < chunk.padded_steps(); j += kLanes)
      hn::StoreU(hn::Mul(factor, hn::LoadU(kTag, before + j)), kTag, out + j);
    out[i] = 1;
  }
}

/// Products of a chunk's keys and queries with earlier keys, decayed: L and P of docs/math/chunk.md. Only what comes
/// before is ever read, so nothing that happens late can touch what is early, not even as 0 x NaN.
class Products {
 public:
  static size_t scratch_size(const DeltaProductInputs& in, size_t C) {
    return 3 * Scratch::rounded(C * C) + 2 * Scratch::rounded(Chunk::query_capacity(in, C) * C);
  }

  Products(const Chunk& chunk, Scratch& scratch)
      : beta_keys(scratch.take(chunk.C * chunk.C)),
        beta_queries(scratch.take(chunk.Q * chunk.C)),
        chunk_(chunk),
        keys_(scratch.take(chunk.C * chunk.C)),
        queries_(scratch.take(chunk.Q * chunk.C)),
        decays_(scratch.take(chunk.C * chunk.C)) {}

  /// From the chunk's keys_t and queries; also to where the backward pass will look for them, unless null.
  void find(const SavedChunk<float>& saved, bool past_caches) {
    // Past the caches go whole cache lines only. Where a vector is less than one, they are put together first.
    const bool save = saved.key_products != nullptr, at_once = kLanes == kPanel || !past_caches;
    float* const keys = !save ? nullptr : at_once ? saved.key_products : keys_;
    float* const queries = !save ? nullptr : at_once ? saved.query_products : queries_;
    const size_t C = chunk_.C, K = chunk_.in.K, steps = chunk_.steps;
    if (chunk_.gated()) find_decays_between(chunk_, decays_);
    for (size_t j = 0; j < steps; j += kLanes) {
      const float* const earlier = chunk_.keys_t + j;
      find_rows(
          j + 1, steps, j, [](size_t i) { return i; },
          [&](auto& tile, size_t i)
              HWY_ATTR { add_product_t(tile, chunk_.keys_t + i, C, earlier, C, K); },
          beta_keys, keys, at_once && past_caches);
      find_rows(
          chunk_.first_query_after(j), chunk_.num_queries, j,
          [&](size_t r) { return chunk_.query_step(r); },
          [&](auto& tile, size_t r)
              HWY_ATTR { add_product(tile, chunk_.queries + r * K, K, earlier, C, K); },
          beta_queries, queries, at_once && past_caches);
    }
    if (!save || at_once) return;
    for (size_t i = 1; i < steps; ++i) copy(keys_, saved.key_products, i, i);
    for (size_t r = 0; r < chunk_.num_queries; ++r)
      copy(queries_, saved.query_products, r, chunk_.query_step(r) + 1);
  }

  float* const beta_keys;     // [C,C] [i][j] = L_ij beta_j for j < i, elsewhere unspecified
  float* const beta_queries;  // [Q,C] [r][j] = P_rj beta_j for the steps j that query r sees

 private:
  // Rows [begin, end) of one vector of columns from j on. add(tile, row) sums products, step_of(row) is the row's step.
  template <class StepOf, class Add>
  HWY_INLINE void find_rows(size_t begin, size_t end, size_t j, const StepOf& step_of,
                            const Add& add, float* HWY_RESTRICT scaled, float* HWY_RESTRICT plain,
                            bool plain_past_caches) const {
    if (begin >= end) return;
    const size_t C = chunk_.C;
    for_tiles<1, kMaxNarrowRows>(end - begin, [&](auto rows, size_t first) HWY_ATTR {
      constexpr size_t R = rows();
      const size_t row = begin + first;
      Tile<R, 1> tile;
      set_zero(tile);
      add(tile, row);
      if (chunk_.gated()) {
        DP_UNROLL for (size_t r = 0; r < R; ++r) tile.v[r][0] =
            hn::Mul(tile.v[r][0], hn::LoadU(kTag, decays_ + step_of(row + r) * C + j));
      }
      if (plain != nullptr) {
        DP_UNROLL for (size_t r = 0; r < R; ++r)
            store(tile.v[r][0], plain + (row + r) * C + j, plain_past_caches);
      }
      scale_columns(tile, chunk_.beta + j);
      store(tile, scaled + row * C + j, C);
    });
  }

  // Whole cache lines of a row, enough for its first `columns`, past the caches.
  void copy(const float* HWY_RESTRICT from, float* HWY_RESTRICT to, size_t row,
            size_t columns) const {
    for (size_t x = row * chunk_.C, end = x + round_up(columns, kPanel); x < end; x += kLanes)
      hn::Stream(hn::LoadU(kTag, from + x), kTag, to + x);
  }

  const Chunk& chunk_;
  float *const keys_, *const queries_, *const decays_;  // L [C,C], P [Q,C]; [C,C]
};

/// Whether rows of `width` floats, of which there are `rows`, had better be written past the caches: such an array is read when
/// all of it is done, so if it is larger than the caches it only displaces what is needed sooner, and a plain store
/// would first read the line it overwrites.
inline bool past_caches(const float* array, size_t width, size_t rows) {
  constexpr size_t kLargeBytes = size_t{4} << 20;
  return reinterpret_cast<uintptr_t>(array) % (kPanel * sizeof(float)) == 0 &&
         width % kPanel == 0 && rows * width * sizeof(float) >= kLargeBytes;
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
