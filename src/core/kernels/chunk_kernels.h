// The SIMD entry points behind delta_product_forward and delta_product_backward: one task's share of a
// sequence, dispatched to the best target of the machine.
#pragma once
#include "kernels/chunk_plan.h"

namespace dp {

/// Some heads of a sequence, and of each the value columns [panel_begin, panel_end) x kPanel. The heads advance together,
/// chunk by chunk: their rows share memory pages, so that each page is looked up once per chunk, not once per head.
struct Slice {
  size_t sequence, head_begin, head_end, panel_begin, panel_end;
};

/// state and saved may be null.
void chunk_forward(const DeltaProductInputs& inputs, const ChunkPlan& plan, const Slice& slice,
                   float* o, float* state, float* saved);

/// The backward pass is two kinds of work per chunk. The sweep goes from the last chunk to the first
/// and carries the gradient of the state; columns are independent. The gradients of q, k, beta and gate
/// then sum over all columns, but chunks are independent. What the sweep leaves for them, per head:
struct SweepBuffers {
  float* d_states = nullptr;   // [slots][panels][K][kPanel], gradient of the state between chunks
  float* d_updates = nullptr;  // [slots][panels][C][kPanel], gradient of each step's u = beta e
  bool every_chunk = false;    // slots for every chunk (and one state more), else one

  size_t slot(size_t chunk) const { return every_chunk ? chunk : 0; }
};

struct BackwardWork {
  bool sweep = true, gradients = true;
  size_t chunk_begin = 0, chunk_end = 0;
};

/// buffers: one for each head of the slice.
void chunk_backward(const DeltaProductInputs& inputs, const ChunkPlan& plan, const Slice& slice,
                    const BackwardWork& work, const float* saved,
                    const DeltaProductGradients& gradients, const SweepBuffers* buffers);

}  // namespace dp
