// The three ways to compute delta_product. Each takes checked arguments and returns o in q's dtype
// and the state in the compute type.
#pragma once
#include <functional>

#include "ops/check.h"

namespace dp {

/// These two are written in ATen operators, which torch differentiates.
DeltaProductOutput delta_product_reference(const DeltaProductArguments& arguments);
DeltaProductOutput delta_product_chunked(const DeltaProductArguments& arguments);

/// The kernels, without and with a node in torch's graph of gradients.
DeltaProductOutput delta_product_fused(const DeltaProductArguments& arguments);
DeltaProductOutput delta_product_fused_autograd(const DeltaProductArguments& arguments);

/// Runs `dense` on a dense batch as it is, and on packed sequences one after another (each a batch
/// of one), so that the work is linear in the tokens however unequal the lengths.
DeltaProductOutput for_each_sequence(
    const DeltaProductArguments& arguments,
    const std::function<DeltaProductOutput(const DeltaProductArguments&)>& dense);

/// The state to start from in the compute type: the one given, or zeros.
at::Tensor initial_state(const DeltaProductArguments& arguments);

/// x [B,T,...] followed by `tokens` tokens of zeros. A token of zeros leaves the state as it is.
at::Tensor pad_tokens(const at::Tensor& x, int64_t tokens);

}  // namespace dp
