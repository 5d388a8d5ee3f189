// Prefetching of what the chunk kernels will read and write next.
#if defined(DP_KERNELS_PREFETCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_PREFETCH_INL_H_
#undef DP_KERNELS_PREFETCH_INL_H_
#else
#define DP_KERNELS_PREFETCH_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/chunk_kernels.h"
#include "kernels/chunk_plan.h"
#include "kernels/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {

/// Prefetches memory a few cache lines at a time, between tiles: all at once, prefetches stall as misses do.
class Prefetcher {
 public:
  void clear() { sets_ = set_ = total_ = 0; }

  /// `count` rows of `width` floats, each `stride` floats after the one before.
  void add(const float* begin, size_t stride, size_t width, size_t count) {
    if (width == stride) width *= std::exchange(count, 1);
    if (count == 0 || width == 0 || sets_ == kMaxSets) return;
    const size_t lines = (width + kLine - 1) / kLine;
    rows_[sets_++] = {begin, lines, lines, stride - lines * kLine, count};
    total_ += count * lines;
  }

  /// Spreads all lines over about so many calls of advance().
  void start(size_t calls) { lines_per_call_ = total_ / calls + 1; }

  HWY_INLINE void advance() {
    if (set_ < sets_) fetch();
  }

 private:
  HWY_NOINLINE void fetch() {
    for (size_t lines = lines_per_call_; lines > 0 && set_ < sets_;) {
      Rows& rows = rows_[set_];
      const size_t run = std::min(lines, rows.left);
      for (size_t i = 0; i < run; ++i)
        __builtin_prefetch(rows.next + i * kLine, 0, 2);  // into the second-level cache
      rows.next += run * kLine;
      rows.left -= run;
      lines -= run;
      if (rows.left > 0) continue;
      rows.next += rows.gap;
      rows.left = rows.lines;
      set_ += --rows.count == 0;
    }
  }

  static constexpr size_t kLine = kLineFloats, kMaxSets = 8;
  struct Rows {
    const float* next;
    size_t left, lines;  // of this row, of each row
    size_t gap;          // floats from the last line's end to the next row; it wraps around
    size_t count;        // rows left
  };
  Rows rows_[kMaxSets];
  size_t sets_ = 0, set_ = 0, total_ = 0, lines_per_call_ = 0;
};

/// Two prefetchers that advance together: for the next chunk of all heads, and for the next head. What only the next
/// head needs is not fetched earlier, since it could be evicted before it is used.
struct ChunkPrefetcher {
  Prefetcher next_chunk, next_head;

  HWY_INLINE void advance() {
    next_chunk.advance();
    next_head.advance();
  }
};

/// The heads of one chunk that will be needed next.
struct NextChunk {
  size_t sequence, chunk, head_begin, heads;

  /// The given chunk of the same slice.
  NextChunk(const Slice& slice, size_t chunk)
      : sequence(slice.sequence),
        chunk(chunk),
        head_begin(slice.head_begin),
        heads(slice.head_end - slice.head_begin) {}

  /// The first chunk, or if backwards the last, of the slice that follows: the next heads, or the next sequence. A thread
  /// that takes slices in order will run it next.
  static std::optional<NextChunk> in_next_slice(const Slice& slice, const DeltaProductInputs& in,
                                                const ChunkPlan& plan, bool backwards) {
    NextChunk next(slice, 0);
    next.head_begin = slice.head_end;
    if (slice.head_end == in.H) {
      next.head_begin = 0;
      ++next.sequence;
    }
    if (next.sequence == in.num_sequences || plan.num_chunks(next.sequence) == 0) return {};
    next.heads = std::min(next.heads, in.H - next.head_begin);
    if (backwards) next.chunk = plan.num_chunks(next.sequence) - 1;
    return next;
  }

  ChunkRows rows(const DeltaProductInputs& in, size_t C) const {
    return ChunkRows(in, C, sequence, chunk, head_begin);
  }
};

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // DP_KERNELS_PREFETCH_INL_H_
