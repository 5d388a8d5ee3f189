// The SIMD entry points behind linear(): one task's share of a product, dispatched to the best target of the machine.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/linear.h"

namespace dp {

/// Rows [begin, end) of a float32 or bfloat16 weight with up to kSmallBatch rows of x [M,I].
void dot_rows(const float* x, size_t M, const LinearOutput& output, size_t begin, size_t end);

/// Rows of activations for int8 and int4 weights (activation_rounding.h): x[m,i] is about scales[m,g] values[m,i] with
/// g = i / kWeightGroup. `groups` is a multiple of kInt4Groups; what lies beyond I is 0.
struct RoundedRows {
  int16_t* values = nullptr;       // [M,groups,kWeightGroup]
  int16_t* int4_values = nullptr;  // the same in the order that the target wants for int4; null if no weight is int4
  float* scales = nullptr;         // [M,groups]
  size_t groups = 0;
};
inline constexpr size_t kInt4Groups = 4;
/// Fills `rounded` from x [M,I].
void round_rows(const float* x, size_t M, size_t I, const RoundedRows& rounded);
/// A row of I activations as float32, rounded in the same way.
void round_row(const float* x, size_t I, float* out);
/// Rows [begin, end) of an int8 or int4 weight with up to kSmallBatch rows.
void dot_quantised(const RoundedRows& x, size_t M, const LinearOutput& output, size_t begin,
                   size_t end);

/// For larger batches x lies in panels: kWidestPanel rows or fewer, as the target likes, side by side for each i.
inline constexpr size_t kWidestPanel = 32;
/// Rows of x in a panel.
size_t panel_width();
/// Panel p of x [M,I]: panel [I,panel_width()], zeros for rows from M on.
void pack_panel(const float* x, size_t M, size_t I, size_t p, float* panel);

/// Weights are widened for so many inputs at a time: 24 accumulators are worth their loads and stores, and this
/// much of a panel stays in the first-level cache.
inline constexpr size_t kPanelDepth = 256;
/// And for so many rows at a time: they, and their sums with 512 rows of x, stay in the second-level cache.
inline constexpr size_t kPanelBlock = 96;
/// Floats of `memory` that panel_product needs.
size_t panel_product_memory(size_t M);
/// Memory that is needed next, on its way into the second-level cache: a line with each step of a product. Rows of
/// weights are too short for the processor to see the next ones coming, and states come after something else entirely.
class ComingMemory {
 public:
  static constexpr size_t kLine = 64;
  /// What does not fit into the list is not fetched.
  void add(const void* data, size_t bytes) {
    if (bytes > 0 && count_ < kMostRanges) ranges_[count_++] = {static_cast<const char*>(data), (bytes + kLine - 1) / kLine};
  }
  /// Consecutive lines, 0 when all are fetched.
  size_t lines() const { return current_ < count_ ? ranges_[current_].lines : 0; }
  const char* next() const { return current_ < count_ ? ranges_[current_].next : nullptr; }
  void advance(size_t lines) {
    if (lines == 0) return;
    Range& range = ranges_[current_];
    range.next += lines * kLine;
    range.lines -= lines;
    current_ += range.lines == 0;
  }

 private:
  static constexpr size_t kMostRanges = 12;
  struct Range {
    const char* next;
    size_t lines;
  };
  std::array<Range, kMostRanges> ranges_;
  size_t count_ = 0, current_ = 0;
};

/// Rows [begin, end) of the weight with all of x, in panels.
void panel_product(const float* panels, size_t M, const LinearOutput& output, size_t begin,
                   size_t end, ComingMemory& coming, float* memory);

}  // namespace dp
