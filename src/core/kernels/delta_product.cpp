// The public entry points: which kernel runs, and how heads and value columns are shared out.
#include "kernels/delta_product.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/chunk_kernels.h"
#include "kernels/scratch.h"
#include "kernels/step.h"

namespace dp {
namespace {

// States of the heads that advance together: they should stay in a core's second-level cache.
constexpr size_t kGroupBytes = 256 * 1024;

// Reorders slices so that threads that take them in turn each get consecutive ones: the slice that a thread prefetches
// (NextChunk) is then its own next one.
std::vector<Slice> interleave(const std::vector<Slice>& slices, size_t threads) {
  const size_t share = ceil_div(slices.size(), threads);
  std::vector<Slice> reordered;
  reordered.reserve(slices.size());
  for (size_t i = 0; i < share; ++i)
    for (size_t first = 0; first + i < slices.size(); first += share)
      reordered.push_back(slices[first + i]);
  return reordered;
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
  size_t groups = std::min(in.H, ceil_div(in.H * head_bytes, kGroupBytes));
  while (groups < in.H && !balanced(groups)) ++groups;
  const size_t wanted = heads == 0 || heads >= threads ? 1 : ceil_div(threads, heads);
  const size_t cuts = std::min(panels, wanted);
  std::vector<Slice> slices;
  slices.reserve(in.num_sequences * groups * cuts);
  for (size_t s = 0; s < in.num_sequences; ++s)
    for (size_t g = 0; g < groups; ++g)
      for (size_t i = 0; i < cuts; ++i)
        slices.push_back({s, in.H * g / groups, in.H * (g + 1) / groups, panels * i / cuts,
                          panels * (i + 1) / cuts});
  return interleave(slices, threads);
}

// The step kernel reads the state where it lies, so it needs one; chunks need it repacked.
bool is_one_step(const DeltaProductInputs& in, const float* state) {
  if (in.state == nullptr || (state == nullptr && in.N > 1)) return false;
  for (size_t s = 0; s < in.num_sequences; ++s)
    if (in.length(s) != 1) return false;
  return true;
}

// What the step kernel wants: rows next to each other, and of unit length if they shall be. Those of a single token are soon
// copied.
class ContiguousRows {
 public:
  explicit ContiguousRows(const DeltaProductInputs& in)
      : inputs(in), scratch_([&](ScratchLayout& layout) {
          q_ = layout.take(in.num_tokens() * in.H * in.K);
          k_ = layout.take(in.num_tokens() * in.N * in.H * in.K);
          v_ = layout.take(in.num_tokens() * in.N * in.H * in.V);
        }) {
    copy(in.q, in.q_step(), in.num_tokens(), in.K, in.normalise, q_);
    copy(in.k, in.k_step(), in.num_tokens() * in.N, in.K, in.normalise, k_);
    copy(in.v, in.v_step(), in.num_tokens() * in.N, in.V, false, v_);
    inputs.q = q_, inputs.k = k_, inputs.v = v_;
    inputs.q_pitch = inputs.k_pitch = inputs.v_pitch = 0;
    inputs.normalise = false;
  }

  DeltaProductInputs inputs;

 private:
  void copy(const float* from, size_t pitch, size_t steps, size_t width, bool normalise,
            float* to) const {
    for (size_t step = 0; step < steps; ++step)
      for (size_t h = 0; h < inputs.H; ++h, to += width) {
        const float* row = from + step * pitch + h * width;
        double squares = 1e-6;
        for (size_t d = 0; normalise && d < width; ++d) squares += double{row[d]} * row[d];
        const double factor = normalise ? 1 / std::sqrt(squares) : 1;
        for (size_t d = 0; d < width; ++d) to[d] = static_cast<float>(row[d] * factor);
      }
  }

  float *q_, *k_, *v_;
  const Scratch scratch_;  // last: its layout sets what comes before
};

}  // namespace

void delta_product_forward(const DeltaProductInputs& in, float* o, float* state, float* saved,
                           Executor& executor) {
  const bool contiguous =
      in.q_step() == in.H * in.K && in.k_step() == in.H * in.K && in.v_step() == in.H * in.V;
  if (saved == nullptr && is_one_step(in, state) && (in.normalise || !contiguous)) {
    const ContiguousRows rows(in);
    delta_product_forward(rows.inputs, o, state, saved, executor);
    return;
  }
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
    std::vector<SweepBuffers> buffers(slices[i].head_end - slices[i].head_begin);
    const Scratch scratch([&](ScratchLayout& layout) {
      float* d_updates =
          layout.take(plan.errors_size);  // each head is done with it before the next
      for (SweepBuffers& b : buffers) b = {layout.take(plan.state_size), d_updates, false};
    });
    chunk_backward(in, plan, slices[i], {true, true, 0, plan.num_chunks(slices[i].sequence)}, saved,
                   gradients, buffers.data());
  });
}

// Fewer heads than threads: first the sweeps of all column slices, which keep what they compute, then all chunks.
void backward_by_columns(const DeltaProductInputs& in, const ChunkPlan& plan, const float* saved,
                         const DeltaProductGradients& gradients, Executor& executor) {
  struct ChunkTask {
    Slice slice;
    size_t chunk;
  };
  std::vector<ChunkTask> chunks;
  std::vector<SweepBuffers> buffers(in.num_sequences * in.H);
  const Scratch scratch([&](ScratchLayout& layout) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const size_t count = plan.num_chunks(i / in.H);
      buffers[i].d_states = layout.take((count + 1) * plan.state_size);
      buffers[i].d_updates = layout.take(count * plan.errors_size);
      buffers[i].every_chunk = true;
    }
  });
  for (size_t s = 0; s < in.num_sequences; ++s)
    for (size_t h = 0; h < in.H; ++h)
      for (size_t c = 0; c < plan.num_chunks(s); ++c)
        chunks.push_back({{s, h, h + 1, 0, plan.panels}, c});
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
