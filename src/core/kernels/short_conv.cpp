// Cuts a short convolution into blocks of tokens. The gradients of the weight are summed per block and
// then over the blocks in order, and blocks depend on the shape alone: so do the results.
#include "kernels/short_conv.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "kernels/scratch.h"
#include "kernels/short_conv_block.h"

namespace dp {
namespace {

// Less than this is done sooner than another thread wakes up.
constexpr size_t kSerialElements = 1 << 14;
constexpr size_t kReducedChannels = 64;

// Long enough that the W-1 tokens computed twice at its end, and its partial sums, cost little.
size_t tokens_per_block(size_t tokens) { return tokens >= 2048 ? 128 : 32; }

void run(size_t num_tasks, size_t elements, Executor& executor,
         const std::function<void(size_t)>& task) {
  SerialExecutor serial;
  (elements <= kSerialElements ? serial : executor).run(num_tasks, task);
}

// Rows of a multiple of 4 KiB would share a few sets of the cache: C = 1024 is common.
size_t row_stride(size_t C) { return round_up(C, kLineFloats) + (C % 256 == 0 ? 32 : 0); }

// What every block reads besides the inputs.
class Shared {
 public:
  explicit Shared(const ShortConvInputs& in)
      : stride_(row_stride(in.C)), scratch_([&](ScratchLayout& layout) {
          if (in.W == 0) return;
          taps_ = layout.take(in.W * stride_);
          zeros_ = layout.take(stride_);
        }) {
    if (in.W == 0) return;
    short_conv_transpose_weight(in, stride_, taps_);
    std::memset(zeros_, 0, in.C * sizeof(float));
  }

  ShortConvBlock block(const ShortConvInputs& in, size_t begin, size_t end) const {
    return {in, taps_, zeros_, stride_, begin, end};
  }

 private:
  size_t stride_;
  float *taps_ = nullptr, *zeros_ = nullptr;
  Scratch scratch_;  // last: its layout sets what comes before
};

// Channels [begin, end) of dweight and dbias from the blocks' partial sums [blocks,W+1,stride].
void reduce(const ShortConvInputs& in, const ShortConvGradients& gradients, const float* partials,
            size_t num_blocks, size_t begin, size_t end) {
  double sums[kReducedChannels];
  for (size_t w = 0; w <= in.W; ++w) {
    std::fill(sums, sums + kReducedChannels, 0.0);
    for (size_t block = 0; block < num_blocks; ++block) {
      const float* row = partials + (block * (in.W + 1) + w) * row_stride(in.C);
      for (size_t c = begin; c < end; ++c) sums[c - begin] += row[c];
    }
    float* out = w < in.W ? gradients.dweight : gradients.dbias;
    if (out == nullptr) continue;
    for (size_t c = begin; c < end; ++c)
      out[w < in.W ? c * in.W + w : c] = static_cast<float>(sums[c - begin]);
  }
}

}  // namespace

void short_conv_forward(const ShortConvInputs& in, float* y, Executor& executor) {
  const size_t tokens = in.num_tokens(), length = tokens_per_block(tokens);
  if (tokens == 0) return;
  const Shared shared(in);
  run(ceil_div(tokens, length), tokens * in.C, executor, [&](size_t i) {
    short_conv_forward_block(shared.block(in, i * length, std::min(tokens, (i + 1) * length)), y);
  });
}

void short_conv_backward(const ShortConvInputs& in, const ShortConvGradients& gradients,
                         Executor& executor) {
  const size_t tokens = in.num_tokens(), length = tokens_per_block(tokens);
  const size_t num_blocks = ceil_div(tokens, length);
  if (gradients.dhistory != nullptr)  // rows that no token reads
    std::memset(gradients.dhistory, 0, in.num_sequences * in.W * in.C * sizeof(float));
  const bool sums = gradients.dweight != nullptr || gradients.dbias != nullptr;
  const size_t partial_size = sums ? (in.W + 1) * row_stride(in.C) : 0;
  const Scratch scratch(num_blocks * partial_size);
  float* const partial = scratch.data();
  const Shared shared(in);
  run(num_blocks, tokens * in.C, executor, [&](size_t i) {
    short_conv_backward_block(shared.block(in, i * length, std::min(tokens, (i + 1) * length)),
                              gradients, sums ? partial + i * partial_size : nullptr);
  });
  if (!sums) return;
  run(ceil_div(in.C, kReducedChannels), num_blocks * partial_size, executor, [&](size_t i) {
    reduce(in, gradients, partial, num_blocks, i * kReducedChannels,
           std::min(in.C, (i + 1) * kReducedChannels));
  });
}

}  // namespace dp
