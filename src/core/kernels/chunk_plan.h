// How the steps of a sequence are cut into chunks, and where a chunk's data lies in the saved buffer.
// The same for every SIMD target, so that a forward pass on one can be followed by a backward on another.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/delta_product.h"
#include "kernels/sizes.h"

namespace dp {

// State, values and errors are kept as panels of kPanel value columns, each panel contiguous: walking
// down one panel touches consecutive cache lines, where rows of a [K,V] matrix with V a power of two
// would all fall into the same few cache sets.
inline constexpr size_t kPanel = 16;

/// Steps are the N T factors of a sequence in order; a chunk is up to C consecutive ones. Chunks ignore
/// token boundaries (any N works): token t is read out in the chunk that holds its last step.
struct ChunkPlan {
  explicit ChunkPlan(const DeltaProductInputs& inputs);

  size_t C;                         // steps per chunk, a multiple of kPanel
  size_t panels;                    // ceil(V / kPanel)
  size_t state_size;                // floats of one state in panels: panels * K * kPanel
  size_t errors_size;               // floats of one chunk's errors in panels: panels * C * kPanel
  size_t queries;                   // most tokens whose last step can lie in one chunk
  std::vector<size_t> first_chunk;  // [num_sequences+1], chunks before each sequence (of one head)

  /// Floats that are saved of one chunk of one head.
  size_t saved_size() const { return state_size + errors_size + (C + queries) * C; }
  size_t num_chunks(size_t sequence) const {
    return first_chunk[sequence + 1] - first_chunk[sequence];
  }
};

/// The rows of one head in one chunk: of k, v and beta from step `step` on, of q and o from token `query` on.
struct ChunkRows {
  ChunkRows() = default;
  ChunkRows(const DeltaProductInputs& in, size_t C, size_t sequence, size_t chunk, size_t head)
      : begin(chunk * C),
        steps(std::min(C, in.length(sequence) * in.N - begin)),
        first_query(begin / in.N),
        num_queries((begin + steps) / in.N - first_query),
        step(in.first_token(sequence) * in.N + begin),
        query(in.first_token(sequence) + first_query),
        head(head) {}

  /// Where the first row lies in an array with `width` floats per head, and `pitch` from one step, or token, to the next.
  size_t at_step(size_t pitch, size_t width) const { return step * pitch + head * width; }
  size_t at_query(size_t pitch, size_t width) const { return query * pitch + head * width; }

  size_t begin = 0, steps = 0;  // of the sequence's steps
  size_t first_query = 0,
         num_queries = 0;      // of the sequence's tokens: those whose last step lies in the chunk
  size_t step = 0, query = 0;  // of all sequences' steps and tokens: the first
  size_t head = 0;
};

/// What a forward pass saves of one chunk of one head: the state before it, of each step its prediction
/// error e = v - S^T k, and the decayed products of keys and queries with earlier keys.
template <class Float>
struct SavedChunk {
  Float* state = nullptr;           // [panels][K][kPanel]
  Float* errors = nullptr;          // [panels][C][kPanel]
  Float* key_products = nullptr;    // [C][C] L, see ChunkProducts
  Float* query_products = nullptr;  // [queries][C] P
};

/// Where a chunk lies in `saved`: chunk by chunk with all heads of each, the order in which the passes go through them.
template <class Float>
SavedChunk<Float> saved_chunk(Float* saved, const ChunkPlan& plan, size_t H, size_t sequence,
                              size_t chunk, size_t head) {
  if (saved == nullptr) return {};
  Float* state = saved + ((plan.first_chunk[sequence] + chunk) * H + head) * plan.saved_size();
  Float* errors = state + plan.state_size;
  Float* key_products = errors + plan.errors_size;
  return {state, errors, key_products, key_products + plan.C * plan.C};
}

}  // namespace dp
