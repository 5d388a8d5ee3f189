// One task of a selective scan: some sequences, some channels. The cuts depend on the shape alone.
#pragma once
#include <algorithm>

#include "kernels/scratch.h"
#include "kernels/selective_scan.h"

namespace dp {

/// Working arrays hold the states of a block's channels transposed, [N,width], so that a vector is one
/// state of neighbouring channels.
class SelectiveScanBlock {
 public:
  static constexpr size_t kChunk = 16;  // tokens from one checkpoint to the next

  SelectiveScanBlock(const SelectiveScanInputs& in, size_t begin, size_t end, size_t group)
      : in(in), begin(begin), end(end), width(group_width(in)), group_(group) {
    first_channel = group * width;
    channels = std::min(width, in.E - first_channel);
  }

  /// Channels of a block, the last one's padding included: their arrays fit the first-level cache.
  static size_t group_width(const SelectiveScanInputs& in) {
    return std::min<size_t>(64, round_up(in.E, kLineFloats));
  }
  static size_t num_groups(const SelectiveScanInputs& in) {
    return ceil_div(in.E, group_width(in));
  }
  static size_t saved_size(const SelectiveScanInputs& in) {
    return checkpoints_before(in, in.num_sequences) * num_groups(in) * in.N * group_width(in);
  }

  size_t size() const { return in.N * width; }

  /// Where h [N,width] before the given chunk of sequence s is kept.
  template <class Float>
  Float* checkpoint(Float* saved, size_t s, size_t chunk) const {
    return saved + ((checkpoints_before(in, s) + chunk) * num_groups(in) + group_) * in.N * width;
  }

  /// [N,width] from this block's channels of x [E,N]; zeros for null, and beside the channels.
  void load(const float* x, float* rows) const {
    std::fill(rows, rows + size(), 0.0f);
    if (x == nullptr) return;
    x += first_channel * in.N;
    for (size_t c = 0; c < channels; ++c)
      for (size_t n = 0; n < in.N; ++n) rows[n * width + c] = x[c * in.N + n];
  }
  void store(const float* rows, float* x) const {
    x += first_channel * in.N;
    for (size_t c = 0; c < channels; ++c)
      for (size_t n = 0; n < in.N; ++n) x[c * in.N + n] = rows[n * width + c];
  }
  /// The state of sequence s in x [num_sequences,E,N]; null stays null.
  template <class Float>
  Float* sequence_state(Float* x, size_t s) const {
    return x == nullptr ? x : x + s * in.E * in.N;
  }

  const SelectiveScanInputs& in;
  size_t begin, end;  // sequences
  size_t first_channel, channels, width;

 private:
  // An upper bound of the number of chunks in the sequences before s, without a loop over them.
  static size_t checkpoints_before(const SelectiveScanInputs& in, size_t s) {
    return in.first_token(s) / kChunk + s;
  }

  size_t group_;
};

}  // namespace dp
