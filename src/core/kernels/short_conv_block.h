// One task of the short convolution: what short_conv.cpp hands to the SIMD targets.
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/short_conv.h"

namespace dp {

/// Tokens [begin, end) of the packed sequences, and what all tasks of a call share.
struct ShortConvBlock {
  const ShortConvInputs& in;
  const float* taps;   // [W,stride]: the weight transposed; null without a convolution
  const float* zeros;  // [C]
  size_t stride;       // of working memory's rows: at least C, and such that the first-level cache
                       // keeps the same channels of several rows
  size_t begin, end;
};

/// The part of one sequence that lies in a block: its tokens [begin, end) of T, counted within it.
class SequencePart {
 public:
  SequencePart(const ShortConvBlock& block, size_t sequence)
      : T(block.in.length(sequence)),
        block_(block),
        sequence_(sequence),
        first_(block.in.first_token(sequence)) {
    begin = block.begin > first_ ? block.begin - first_ : 0;
    end = std::min(T, block.end - first_);
  }

  /// The input of token t = t_plus_W - W, from the history for t < 0.
  const float* input(size_t t_plus_W) const {
    const ShortConvInputs& in = block_.in;
    if (t_plus_W >= in.W) return in.x + token(t_plus_W) * in.C;
    return in.history == nullptr ? block_.zeros : in.history + history(t_plus_W) * in.C;
  }
  /// input() of tokens t - (W-1) .. t + count - 1; without a convolution, of t and on.
  void inputs(size_t t, size_t count, const float** rows) const {
    const size_t W = std::max<size_t>(1, block_.in.W);
    for (size_t i = 0; i < W - 1 + count; ++i) rows[i] = input(t + block_.in.W + 1 - W + i);
  }
  float* row(float* x, size_t t) const { return x + (first_ + t) * block_.in.C; }
  const float* row(const float* x, size_t t) const { return x + (first_ + t) * block_.in.C; }

  /// Where the gradient of input(t_plus_W) goes: `discarded` for history whose gradient is not wanted.
  float* input_gradient(const ShortConvGradients& gradients, size_t t_plus_W,
                        float* discarded) const {
    const ShortConvInputs& in = block_.in;
    if (t_plus_W >= in.W) return gradients.dx + token(t_plus_W) * in.C;
    return gradients.dhistory == nullptr ? discarded
                                         : gradients.dhistory + history(t_plus_W) * in.C;
  }

  size_t T, begin, end;

 private:
  size_t token(size_t t_plus_W) const { return first_ + t_plus_W - block_.in.W; }
  size_t history(size_t t_plus_W) const { return sequence_ * block_.in.W + t_plus_W; }

  const ShortConvBlock& block_;
  size_t sequence_, first_;
};

/// Calls body(SequencePart) for each sequence with tokens in the block.
template <class Body>
void for_each_part(const ShortConvBlock& block, const Body& body) {
  const int64_t* offsets = block.in.offsets;
  const int64_t* after = std::upper_bound(offsets, offsets + block.in.num_sequences + 1,
                                          static_cast<int64_t>(block.begin));
  for (size_t s = static_cast<size_t>(after - offsets) - 1;
       s < block.in.num_sequences && offsets[s] < static_cast<int64_t>(block.end); ++s)
    if (offsets[s] < offsets[s + 1]) body(SequencePart(block, s));
}

void short_conv_transpose_weight(const ShortConvInputs& in, size_t stride, float* taps);
void short_conv_forward_block(const ShortConvBlock& block, float* y);
/// `partial` [W+1,stride], or null: the block's own share of the gradients of taps, then bias.
void short_conv_backward_block(const ShortConvBlock& block, const ShortConvGradients& gradients,
                               float* partial);

}  // namespace dp
