#include "kernels/chunk_plan.h"

namespace dp {
namespace {

// Longer chunks waste more on the C x C triangles, shorter ones save more states for the backward pass
// (K V / C floats per step). At K = 64 and 128, 16 steps run up to 8 % faster than 32 and save twice
// as much.
size_t steps_per_chunk(size_t K) { return K <= 48 ? 16 : K <= 256 ? 32 : 64; }

}  // namespace

ChunkPlan::ChunkPlan(const DeltaProductInputs& inputs)
    : C(steps_per_chunk(inputs.K)),
      panels(ceil_div(inputs.V, kPanel)),
      state_size(panels * inputs.K * kPanel),
      errors_size(panels * C * kPanel),
      queries(ceil_div(C, inputs.N)),
      first_chunk(inputs.num_sequences + 1, 0) {
  for (size_t s = 0; s < inputs.num_sequences; ++s)
    first_chunk[s + 1] = first_chunk[s] + ceil_div(inputs.length(s) * inputs.N, C);
}

size_t delta_product_saved_size(const DeltaProductInputs& inputs) {
  const ChunkPlan plan(inputs);
  return plan.first_chunk.back() * inputs.H * plan.saved_size();
}

size_t delta_product_max_saved_size(const DeltaProductInputs& inputs, size_t tokens) {
  DeltaProductInputs sizes = inputs;
  sizes.num_sequences = 0;
  const ChunkPlan plan(sizes);
  // Each sequence ends with at most one chunk that is not full.
  const size_t chunks = tokens * inputs.N / plan.C + std::min(tokens, inputs.num_sequences);
  return chunks * inputs.H * plan.saved_size();
}

}  // namespace dp
