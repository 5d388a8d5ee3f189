// The SIMD entry points behind delta_product_forward and delta_product_backward: work on one head of
// one sequence, dispatched to the best target of the machine.
#pragma once
#include "kernels/chunk_plan.h"

namespace dp {

/// A head of a sequence and the value columns [panel_begin, panel_end) x kPanel of it.
struct HeadSlice {
  size_t sequence, head, panel_begin, panel_end;
};

/// state may be null. saved points to this head's buffers, or holds nulls when nothing is kept.
void chunk_forward(const DeltaProductInputs& inputs, const ChunkPlan& plan, const HeadSlice& slice,
                   float* o, float* state, const SavedHead<float>& saved);

/// The backward pass of a head is two kinds of work per chunk. The sweep goes from the last chunk to
/// the first and carries the gradient of the state; columns are independent. The gradients of q, k,
/// beta and gate then sum over all columns, but chunks are independent. What the sweep leaves for them:
struct SweepBuffers {
  float* d_states = nullptr;   // [slots][panels][K][kPanel], gradient of the state between chunks
  float* d_updates = nullptr;  // [slots][panels][C][kPanel], gradient of each step's u = beta e
  bool every_chunk = false;    // slots for every chunk (and one state more), else two to alternate

  size_t state_slot(size_t before_chunk) const { return every_chunk ? before_chunk : before_chunk % 2; }
  size_t update_slot(size_t chunk) const { return every_chunk ? chunk : 0; }
};

struct BackwardWork {
  bool sweep = true, gradients = true;
  size_t chunk_begin = 0, chunk_end = 0;
};

void chunk_backward(const DeltaProductInputs& inputs, const ChunkPlan& plan, const HeadSlice& slice,
                    const BackwardWork& work, const SavedHead<const float>& saved,
                    const DeltaProductGradients& gradients, const SweepBuffers& buffers);

}  // namespace dp
