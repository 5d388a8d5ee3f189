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
  std::vector<size_t> first_chunk;  // [num_sequences+1], chunks before each sequence (of one head)

  size_t num_chunks(size_t sequence) const {
    return first_chunk[sequence + 1] - first_chunk[sequence];
  }
};

/// What a forward pass saves of one head of one sequence: the state before each chunk, and of each
/// step its prediction error e = v - S^T k.
template <class Float>
struct SavedHead {
  Float* states = nullptr;  // [chunks][panels][K][kPanel]
  Float* errors = nullptr;  // [chunks][panels][C][kPanel]
};

template <class Float>
SavedHead<Float> saved_head(Float* saved, const ChunkPlan& plan, size_t H, size_t sequence,
                            size_t head) {
  if (saved == nullptr) return {};
  const size_t chunk_size = plan.state_size + plan.errors_size;
  const size_t chunks_before = plan.first_chunk[sequence] * H + plan.num_chunks(sequence) * head;
  Float* begin = saved + chunks_before * chunk_size;
  return {begin, begin + plan.num_chunks(sequence) * plan.state_size};
}

}  // namespace dp
