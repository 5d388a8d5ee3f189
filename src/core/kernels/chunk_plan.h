// How the steps of a sequence are cut into chunks, and where a chunk's data lies in the saved buffer.
// The same for every SIMD target, so that a forward pass on one can be followed by a backward on another.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/delta_product.h"

namespace dp {

// State, values and errors are kept as panels of kPanel value columns, each panel contiguous: walking
// down one panel touches consecutive cache lines, where rows of a [K,V] matrix with V a power of two
// would all fall into the same few cache sets.
inline constexpr size_t kPanel = 16;

constexpr size_t round_up(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

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

/// What a forward pass saves of one chunk of one head: the state before it, of each step its prediction
/// error e = v - S^T k, and the decayed products of keys and queries with earlier keys.
template <class Float>
struct SavedChunk {
  Float* state = nullptr;           // [panels][K][kPanel]
  Float* errors = nullptr;          // [panels][C][kPanel]
  Float* key_products = nullptr;    // [C][C] L, see Products
  Float* query_products = nullptr;  // [queries][C] P
};

/// Chunk by chunk with all heads of each, as the passes go: they then move through memory in one line.
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
