// The public entry points: which kernel runs, and how heads and value columns are shared out.
#include "kernels/delta_product.h"

#include <algorithm>
#include <vector>

#include "kernels/chunk_kernels.h"
#include "kernels/scratch.h"
#include "kernels/step.h"

namespace dp {
namespace {

// Heads alone when they occupy every thread, else each head's columns in as many slices as help.
// Where a column is cut changes nothing in its result, so neither does the number of threads.
std::vector<HeadSlice> head_slices(const DeltaProductInputs& in, size_t panels, int num_threads) {
  const size_t heads = in.num_sequences * in.H, threads = static_cast<size_t>(num_threads);
  const size_t wanted = heads == 0 || heads >= threads ? 1 : (threads + heads - 1) / heads;
  const size_t slices = std::min(panels, wanted);
  std::vector<HeadSlice> out;
  out.reserve(heads * slices);
  for (size_t s = 0; s < in.num_sequences; ++s)
    for (size_t h = 0; h < in.H; ++h)
      for (size_t i = 0; i < slices; ++i)
        out.push_back({s, h, panels * i / slices, panels * (i + 1) / slices});
  return out;
}

// The step kernel reads the state where it lies, so it needs one; chunks need it repacked.
bool is_one_step(const DeltaProductInputs& in, const float* state) {
  if (in.state == nullptr || (state == nullptr && in.N > 1)) return false;
  for (size_t s = 0; s < in.num_sequences; ++s)
    if (in.offsets[s + 1] - in.offsets[s] != 1) return false;
  return true;
}

}  // namespace

void delta_product_forward(const DeltaProductInputs& in, float* o, float* state, float* saved,
                           Executor& executor) {
  if (saved == nullptr && is_one_step(in, state)) {
    const auto slices = head_slices(in, round_up(in.V, kPanel) / kPanel, executor.num_threads());
    executor.run(slices.size(), [&](size_t i) { step_forward(in, slices[i], o, state); });
    return;
  }
  const ChunkPlan plan(in);
  const auto slices = head_slices(in, plan.panels, executor.num_threads());
  executor.run(slices.size(), [&](size_t i) {
    const HeadSlice& slice = slices[i];
    chunk_forward(in, plan, slice, o, state, saved_head(saved, plan, in.H, slice.sequence, slice.head));
  });
}

namespace {

// Sweep and gradients of each chunk in turn, on one thread per head.
void backward_by_heads(const DeltaProductInputs& in, const ChunkPlan& plan, const float* saved,
                       const DeltaProductGradients& gradients, Executor& executor) {
  executor.run(in.num_sequences * in.H, [&](size_t i) {
    const HeadSlice slice{i / in.H, i % in.H, 0, plan.panels};
    Scratch scratch(2 * plan.state_size + plan.errors_size);
    SweepBuffers buffers;
    buffers.d_states = scratch.take(2 * plan.state_size);
    buffers.d_updates = scratch.take(plan.errors_size);
    chunk_backward(in, plan, slice, {true, true, 0, plan.num_chunks(slice.sequence)},
                   saved_head(saved, plan, in.H, slice.sequence, slice.head), gradients, buffers);
  });
}

// Fewer heads than threads: the sweeps of all column slices, everything kept, then all chunks.
void backward_by_slices(const DeltaProductInputs& in, const ChunkPlan& plan, const float* saved,
                        const DeltaProductGradients& gradients, Executor& executor) {
  const auto slices = head_slices(in, plan.panels, executor.num_threads());
  const size_t heads = in.num_sequences * in.H;
  std::vector<SweepBuffers> buffers(heads);
  std::vector<BackwardWork> chunks;  // and the head of each
  std::vector<size_t> head_of;
  Scratch scratch(in.H * (plan.first_chunk.back() * (plan.state_size + plan.errors_size) +
                          in.num_sequences * plan.state_size));
  for (size_t i = 0; i < heads; ++i) {
    const size_t count = plan.num_chunks(i / in.H);
    buffers[i] = {scratch.take((count + 1) * plan.state_size), scratch.take(count * plan.errors_size), true};
    for (size_t c = 0; c < count; ++c) {
      chunks.push_back({false, true, c, c + 1});
      head_of.push_back(i);
    }
  }
  executor.run(slices.size(), [&](size_t i) {
    const HeadSlice& slice = slices[i];
    chunk_backward(in, plan, slice, {true, false, 0, plan.num_chunks(slice.sequence)},
                   saved_head(saved, plan, in.H, slice.sequence, slice.head), gradients,
                   buffers[slice.sequence * in.H + slice.head]);
  });
  executor.run(chunks.size(), [&](size_t i) {
    const HeadSlice slice{head_of[i] / in.H, head_of[i] % in.H, 0, plan.panels};
    chunk_backward(in, plan, slice, chunks[i],
                   saved_head(saved, plan, in.H, slice.sequence, slice.head), gradients,
                   buffers[head_of[i]]);
  });
}

}  // namespace

void delta_product_backward(const DeltaProductInputs& in, const float* saved,
                            const DeltaProductGradients& gradients, Executor& executor) {
  const ChunkPlan plan(in);
  const bool enough_heads = in.num_sequences * in.H >= static_cast<size_t>(executor.num_threads());
  (enough_heads ? backward_by_heads : backward_by_slices)(in, plan, saved, gradients, executor);
}

}  // namespace dp
