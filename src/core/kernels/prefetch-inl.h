// What the chunk kernels will read and write next, and its way into the cache while they still compute.
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

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {

/// Fetches memory into the cache a few lines at a time, between tiles: all at once, it would stall as a
/// miss does.
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

  static constexpr size_t kLine = 64 / sizeof(float), kMaxSets = 8;
  struct Rows {
    const float* next;
    size_t left, lines;  // of this row, of each row
    size_t gap;          // floats from the last line's end to the next row; it wraps around
    size_t count;        // rows left
  };
  Rows rows_[kMaxSets];
  size_t sets_ = 0, set_ = 0, total_ = 0, lines_per_call_ = 0;
};

/// Two that advance together: what the next chunk needs, of all heads, and what the next head needs.
/// The less waits in the second-level cache, the less is evicted before its turn.
struct ChunkPrefetcher {
  Prefetcher next_chunk, next_head;

  HWY_INLINE void advance() {
    next_chunk.advance();
    next_head.advance();
  }
};

/// The rows of one head in one chunk: of k, v and beta from step_row on, of q and o from query_row on.
struct ChunkRows {
  ChunkRows(const DeltaProductInputs& in, size_t first_token, size_t num_steps, size_t C, size_t c,
            size_t h)
      : begin(c * C),
        steps(std::min(C, num_steps - begin)),
        first_query(begin / in.N),  // the first token whose last step is not before the chunk
        num_queries((begin + steps) / in.N - first_query),
        step_row((first_token * in.N + begin) * in.H + h),
        query_row((first_token + first_query) * in.H + h) {}

  size_t begin, steps, first_query, num_queries, step_row, query_row;
};

/// The heads of one chunk that will be needed next.
struct ComingChunk {
  size_t sequence, chunk, head_begin, heads;

  /// Of the slice at hand.
  ComingChunk(const Slice& slice, size_t chunk)
      : sequence(slice.sequence),
        chunk(chunk),
        head_begin(slice.head_begin),
        heads(slice.head_end - slice.head_begin) {}

  /// Of the slice after it: the next heads, or the next sequence. If a thread takes slices in order, it is the next to run.
  static std::optional<ComingChunk> after(const Slice& slice, const DeltaProductInputs& in,
                                          const ChunkPlan& plan, bool backwards) {
    ComingChunk coming(slice, 0);
    coming.head_begin = slice.head_end;
    if (slice.head_end == in.H) {
      coming.head_begin = 0;
      ++coming.sequence;
    }
    if (coming.sequence == in.num_sequences || plan.num_chunks(coming.sequence) == 0) return {};
    coming.heads = std::min(coming.heads, in.H - coming.head_begin);
    if (backwards) coming.chunk = plan.num_chunks(coming.sequence) - 1;
    return coming;
  }

  ChunkRows rows(const DeltaProductInputs& in, size_t C) const {
    const auto begin = static_cast<size_t>(in.offsets[sequence]);
    const auto end = static_cast<size_t>(in.offsets[sequence + 1]);
    return ChunkRows(in, begin, (end - begin) * in.N, C, chunk, head_begin);
  }
};

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // DP_KERNELS_PREFETCH_INL_H_
