// One token: reads and writes the state once per group of up to four factors.
#pragma once
#include "kernels/chunk_kernels.h"

namespace dp {

/// Advances the given value columns of a sequence of exactly one token. state_out may alias
/// inputs.state, and may be null when only o is wanted.
void step_forward(const DeltaProductInputs& inputs, const Slice& slice, float* o, float* state_out);

}  // namespace dp
