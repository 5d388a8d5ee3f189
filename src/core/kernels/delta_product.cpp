// The public entry points: which kernel runs, and how heads and value columns are shared out.
#include "kernels/delta_product.h"

#include <algorithm>
#include <vector>

#include "kernels/chunk_kernels.h"
#include "kernels/scratch.h"
#include "kernels/step.h"

namespace dp {
namespace {

// States of the heads that advance together: they should stay in a core's second-level cache.
constexpr size_t kGroupBytes = 256 * 1024;

// In an order in which threads that take slices in turn each get consecutive ones: what follows a slice in memory is then
// fetched by the thread that needs it (ComingChunk).
std::vector<Slice> deal(const std::vector<Slice>& slices, size_t threads) {
  const size_t share = (slices.size() + threads - 1) / threads;
  std::vector<Slice> dealt;
  dealt.reserve(slices.size());
  for (size_t i = 0; i < share; ++i)
    for (size_t first = 0; first + i < slices.size(); first += share)
      dealt.push_back(slices[first + i]);
  return dealt;
}

// Cuts the work into tasks: groups of heads; single heads when groups would leave threads idle; and
// when there are fewer heads than threads, slices of their columns. Where the cuts fall changes
// nothing in the results, so neither does the number of threads.
std::vector<Slice> make_slices(const DeltaProductInputs& in, size_t panels, int num_threads) {
  const size_t threads = static_cast<size_t>(num_threads), heads = in.num_sequences * in.H;
  const size_t head_bytes = in.K * panels * kPanel * sizeof(float);
  const auto balanced = [&](size_t groups) {
    const size_t tasks = in.num_sequences * groups;
    return tasks % threads == 0 || tasks >= 8 * threads;
  };
  size_t groups = std::min(in.H, (in.H * head_bytes + kGroupBytes - 1) / kGroupBytes);
  while (groups < in.H && !balanced(groups)) ++groups;
  const size_t wanted = heads == 0 || heads >= threads ? 1 : (threads + heads - 1) / heads;
  const size_t cuts = std::min(panels, wanted);
  std::vector<Slice> slices;
  slices.reserve(in.num_sequences * groups * cuts);
  for (size_t s = 0; s < in.num_sequences; ++s)
    for (size_t g = 0; g < groups; ++g)
      for (size_t i = 0; i < cuts; ++i)
        slices.push_back({s, in.H * g / groups, in.H * (g + 1) / groups, panels * i / cuts,
                          panels * (i + 1) / cuts});
  return deal(slices, threads);
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
  const ChunkPlan plan(in);
  const auto slices = make_slices(in, plan.panels, executor.num_threads());
  const bool one_step = saved == nullptr && is_one_step(in, state);
  executor.run(slices.size(), [&](size_t i) {
    if (one_step) {
      step_forward(in, slices[i], o, state);
    } else {
      chunk_forward(in, plan, slices[i], o, state, saved);
    }
  });
}

namespace {

// Sweep and gradients of each chunk in turn, heads in groups.
void backward_by_heads(const DeltaProductInputs& in, const ChunkPlan& plan, const float* saved,
                       const DeltaProductGradients& gradients, Executor& executor) {
  const auto slices = make_slices(in, plan.panels, executor.num_threads());
  executor.run(slices.size(), [&](size_t i) {
    const size_t heads = slices[i].head_end - slices[i].head_begin;
    Scratch scratch(heads * plan.state_size + plan.errors_size);
    std::vector<SweepBuffers> buffers(heads);
    float* d_updates = scratch.take(plan.errors_size);  // each head is done with it before the next
    for (SweepBuffers& b : buffers) b = {scratch.take(plan.state_size), d_updates, false};
    chunk_backward(in, plan, slices[i], {true, true, 0, plan.num_chunks(slices[i].sequence)}, saved,
                   gradients, buffers.data());
  });
}

// Fewer heads than threads: the sweeps of all column slices, everything kept, then all chunks.
void backward_by_columns(const DeltaProductInputs& in, const ChunkPlan& plan, const float* saved,
                         const DeltaProductGradients& gradients, Executor& executor) {
  struct ChunkTask {
    Slice slice;
    size_t chunk;
  };
  std::vector<ChunkTask> chunks;
  std::vector<SweepBuffers> buffers(in.num_sequences * in.H);
  Scratch scratch(in.H * (plan.first_chunk.back() * (plan.state_size + plan.errors_size) +
                          in.num_sequences * plan.state_size));
  for (size_t s = 0; s < in.num_sequences; ++s)
    for (size_t h = 0; h < in.H; ++h) {
      const size_t count = plan.num_chunks(s);
      buffers[s * in.H + h] = {scratch.take((count + 1) * plan.state_size),
                               scratch.take(count * plan.errors_size), true};
      for (size_t c = 0; c < count; ++c) chunks.push_back({{s, h, h + 1, 0, plan.panels}, c});
    }
  const auto run = [&](const Slice& slice, const BackwardWork& work) {
    chunk_backward(in, plan, slice, work, saved, gradients,
                   &buffers[slice.sequence * in.H + slice.head_begin]);
  };
  const auto slices = make_slices(in, plan.panels, executor.num_threads());
  executor.run(slices.size(), [&](size_t i) {
    run(slices[i], {true, false, 0, plan.num_chunks(slices[i].sequence)});
  });
  executor.run(chunks.size(), [&](size_t i) {
    run(chunks[i].slice, {false, true, chunks[i].chunk, chunks[i].chunk + 1});
  });
}

}  // namespace

void delta_product_backward(const DeltaProductInputs& in, const float* saved,
                            const DeltaProductGradients& gradients, Executor& executor) {
  const ChunkPlan plan(in);
  const bool enough_heads = in.num_sequences * in.H >= static_cast<size_t>(executor.num_threads());
  (enough_heads ? backward_by_heads : backward_by_columns)(in, plan, saved, gradients, executor);
}

}  // namespace dp
