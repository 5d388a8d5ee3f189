#include "kernels/chunk_plan.h"

namespace dp {
namespace {

// Long chunks turn more of the work into large products, short ones waste less on the C x C
// triangles: useful / spent flops is about 1 / (1 + 2C/3K).
size_t steps_per_chunk(size_t K) { return K <= 48 ? 16 : K <= 160 ? 32 : 48; }

}  // namespace

ChunkPlan::ChunkPlan(const DeltaProductInputs& inputs)
    : C(steps_per_chunk(inputs.K)),
      panels(round_up(inputs.V, kPanel) / kPanel),
      state_size(panels * inputs.K * kPanel),
      errors_size(panels * C * kPanel),
      first_chunk(inputs.num_sequences + 1, 0) {
  for (size_t s = 0; s < inputs.num_sequences; ++s) {
    const size_t steps = static_cast<size_t>(inputs.offsets[s + 1] - inputs.offsets[s]) * inputs.N;
    first_chunk[s + 1] = first_chunk[s] + round_up(steps, C) / C;
  }
}

size_t delta_product_saved_size(const DeltaProductInputs& inputs) {
  const ChunkPlan plan(inputs);
  return plan.first_chunk.back() * inputs.H * (plan.state_size + plan.errors_size);
}

}  // namespace dp
