// The SIMD entry points behind linear(): one task's share of a product, dispatched to the best target of the machine.
#pragma once
#include <cstddef>

#include "kernels/linear.h"

namespace dp {

/// Rows [begin, end) of the weight with up to kFewRows rows of x [M,I].
void dot_rows(const float* x, size_t M, const LinearOutput& output, size_t begin, size_t end);

/// For many rows, x lies in panels: kWidestPanel rows or fewer, as the target likes, side by side for each i.
inline constexpr size_t kWidestPanel = 32;
/// Rows of x in a panel.
size_t panel_width();
/// Panel p of x [M,I]: panel [I,panel_width()], zeros for rows from M on.
void pack_panel_of_rows(const float* x, size_t M, size_t I, size_t p, float* panel);

/// Weights are widened for so many inputs at a time: 24 accumulators are worth their loads and stores, and this
/// much of a panel stays in the first-level cache.
inline constexpr size_t kPanelDepth = 256;
/// And for so many rows at a time: they, and their sums with 512 rows of x, stay in the second-level cache.
inline constexpr size_t kPanelBlock = 96;
/// Floats of `memory` that panel_product needs.
size_t panel_product_memory(size_t M);
/// Rows [begin, end) of the weight with all of x, in panels.
void panel_product(const float* panels, size_t M, const LinearOutput& output, size_t begin,
                   size_t end, float* memory);

}  // namespace dp
