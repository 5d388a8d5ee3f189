// Nothing of the size tokens x E x N is kept: the forward pass saves h every kChunk tokens, and the
// backward pass computes a chunk's states anew, for one vector of channels at a time.
#include "kernels/selective_scan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/selective_scan.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/activations-inl.h"
#include "kernels/selective_scan_block.h"
#include "kernels/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kChunk = SelectiveScanBlock::kChunk;

void load_minus_A(const SelectiveScanBlock& block, float* minus_A) {
  block.load(block.in.A, minus_A);
  for (size_t i = 0; i < block.size(); ++i) minus_A[i] = -minus_A[i];
}

// h before the first token. NaN in A is put into it, because exp_minus() hides that.
void load_state(const SelectiveScanBlock& block, const float* minus_A, size_t s, float* h) {
  block.load(block.sequence_state(block.in.state, s), h);
  for (size_t i = 0; i < block.size(); ++i)
    if (std::isnan(minus_A[i])) h[i] = minus_A[i];
}

// Of one state of a vector of channels. Computing those of several states side by side gains no more than
// a twentieth: they are independent, and the processor finds that out (Zen 3).
template <bool kNegative, class D>
HWY_INLINE hn::Vec<D> eigenvalue(D d, hn::Vec<D> dt, const float* minus_A) {
  const hn::Vec<D> x[1] = {hn::Mul(dt, hn::LoadU(d, minus_A))};
  hn::Vec<D> e[1];
  exp_minus(d, x, e);
  return kNegative ? hn::MulSub(hn::Set(d, 2.0f), e[0], hn::Set(d, 1.0f)) : e[0];
}

// Tokens [begin, end) of the vector of channels from e on, whose columns of -A and h are given.
template <bool kNegative, class D>
void forward_tokens(D d, const SelectiveScanInputs& in, size_t begin, size_t end, size_t e,
                    const float* HWY_RESTRICT minus_A, float* HWY_RESTRICT h, size_t width,
                    float* HWY_RESTRICT y) {
  const auto skip = in.D == nullptr ? hn::Zero(d) : hn::LoadU(d, in.D + e);
  for (size_t t = begin; t < end; ++t) {
    const auto x = hn::LoadU(d, in.x + t * in.E + e), dt = hn::LoadU(d, in.dt + t * in.E + e);
    const auto dtx = hn::Mul(dt, x);
    const float *B = in.B + t * in.N, *C = in.C + t * in.N;
    auto sum = hn::Mul(skip, x);
    for (size_t n = 0; n < in.N; ++n) {
      const auto a = eigenvalue<kNegative>(d, dt, minus_A + n * width);
      const auto b = hn::Mul(dtx, hn::Set(d, B[n]));
      const auto next = hn::MulAdd(a, hn::LoadU(d, h + n * width), b);
      hn::StoreU(next, d, h + n * width);
      sum = hn::MulAdd(next, hn::Set(d, C[n]), sum);
    }
    hn::StoreU(sum, d, y + t * in.E + e);
  }
}

template <bool kNegative>
void forward_block(const SelectiveScanBlock& block, const SelectiveScanOutputs& out) {
  const SelectiveScanInputs& in = block.in;
  float *minus_A, *h;
  const Scratch scratch([&](ScratchLayout& layout) {
    minus_A = layout.take(block.size()), h = layout.take(block.size());
  });
  load_minus_A(block, minus_A);
  for (size_t s = block.begin; s < block.end; ++s) {
    load_state(block, minus_A, s, h);
    const size_t first = in.first_token(s), last = in.end_token(s);
    for (size_t t = first; t < last; t += kChunk) {
      if (out.saved != nullptr)
        std::copy(h, h + block.size(), block.checkpoint(out.saved, s, (t - first) / kChunk));
      for_vectors(block.channels, [&](auto d, size_t c) HWY_ATTR {
        forward_tokens<kNegative>(d, in, t, std::min(last, t + kChunk), block.first_channel + c,
                                  minus_A + c, h + c, block.width, out.y);
      });
    }
    block.store(h, block.sequence_state(out.state, s));
  }
}

// Working memory of a backward pass. Slots hold one vector, for the current channels.
class BackwardMemory {
 public:
  explicit BackwardMemory(const SelectiveScanBlock& block)
      : lanes(hn::Lanes(hn::ScalableTag<float>())),
        slots_(kChunk * block.in.N * lanes),
        scratch_([&](ScratchLayout& layout) {
          for (float** rows : {&minus_A, &dh}) *rows = layout.take(block.size());
          h = layout.take(slots_ + block.in.N * lanes);
          for (float** slots : {&a, &dB, &dC}) *slots = layout.take(slots_);
        }) {}
  void clear_sums() {
    for (float* slots : {dB, dC}) std::fill(slots, slots + slots_, 0.0f);
  }

  size_t lanes;
  float *minus_A, *dh;  // [N,width]; dh is the gradient of h after the current token
  float* h;             // [kChunk+1,N,lanes] before the chunk, after each of its tokens
  float* a;             // [kChunk,N,lanes]
  float *dB, *dC;       // [kChunk,N,lanes] summed over the block's vectors of channels

 private:
  size_t slots_;
  Scratch scratch_;  // last: its layout sets what comes before
};

// h and a of `count` tokens from `begin` on. `minus_A` and `checkpoint` point to the channels' columns.
template <bool kNegative, class D>
void recompute(D d, const SelectiveScanInputs& in, size_t begin, size_t count, size_t e,
               const float* HWY_RESTRICT minus_A, const float* HWY_RESTRICT checkpoint,
               size_t width, const BackwardMemory& memory) {
  const size_t N = in.N, lanes = memory.lanes;
  float *HWY_RESTRICT h = memory.h, *HWY_RESTRICT kept = memory.a;
  for (size_t n = 0; n < N; ++n) hn::StoreU(hn::LoadU(d, checkpoint + n * width), d, h + n * lanes);
  for (size_t t = begin; t < begin + count; ++t) {
    const auto x = hn::LoadU(d, in.x + t * in.E + e), dt = hn::LoadU(d, in.dt + t * in.E + e);
    const auto dtx = hn::Mul(dt, x);
    const float* B = in.B + t * N;
    for (size_t n = 0; n < N; ++n) {
      const size_t slot = ((t - begin) * N + n) * lanes;
      const auto a = eigenvalue<kNegative>(d, dt, minus_A + n * width);
      const auto b = hn::Mul(dtx, hn::Set(d, B[n]));
      hn::StoreU(a, d, kept + slot);
      hn::StoreU(hn::MulAdd(a, hn::LoadU(d, h + slot), b), d, h + slot + N * lanes);
    }
  }
}

// With g = dh_t after y_t's share, g += C_t dy_t, and q = g h_{t-1} da/d(dt A), which is a, or a + 1 with
// negative eigenvalues:
//   dC_t = sum_e dy_t h_t;   dB_t = sum_e g dt_t x_t;   dA += q dt_t;   dD += dy_t x_t
//   dx_t = dt_t sum_n g B_t + D dy_t;   ddt_t = x_t sum_n g B_t + sum_n q A;   dh_{t-1} = g a_t
// dA_dD [N+1,width]: dA, then dD.
template <bool kNegative, class D>
void backward_tokens(D d, const SelectiveScanInputs& in, const SelectiveScanGradients& gradients,
                     size_t begin, size_t count, size_t e, const BackwardMemory& memory,
                     const float* HWY_RESTRICT minus_A, float* HWY_RESTRICT dh,
                     float* HWY_RESTRICT dA_dD, size_t width) {
  const size_t N = in.N, lanes = memory.lanes;
  const float *HWY_RESTRICT kept_h = memory.h, *HWY_RESTRICT kept_a = memory.a;
  float *HWY_RESTRICT dB = memory.dB, *HWY_RESTRICT dC = memory.dC;
  const auto skip = in.D == nullptr ? hn::Zero(d) : hn::LoadU(d, in.D + e);
  auto dD = hn::LoadU(d, dA_dD + N * width);
  for (size_t i = count; i-- > 0;) {
    const size_t t = begin + i, at = t * in.E + e;
    const auto x = hn::LoadU(d, in.x + at), dt = hn::LoadU(d, in.dt + at);
    const auto dy = hn::LoadU(d, gradients.dy + at), dtx = hn::Mul(dt, x);
    const float *B = in.B + t * N, *C = in.C + t * N;
    auto sum_gB = hn::Zero(d), minus_sum_qA = hn::Zero(d);
    for (size_t n = 0; n < N; ++n) {
      const size_t slot = (i * N + n) * lanes;
      const auto a = hn::LoadU(d, kept_a + slot), before = hn::LoadU(d, kept_h + slot);
      const auto after = hn::LoadU(d, kept_h + slot + N * lanes);
      hn::StoreU(hn::MulAdd(dy, after, hn::LoadU(d, dC + slot)), d, dC + slot);
      const auto g = hn::MulAdd(dy, hn::Set(d, C[n]), hn::LoadU(d, dh + n * width));
      hn::StoreU(hn::MulAdd(g, dtx, hn::LoadU(d, dB + slot)), d, dB + slot);
      sum_gB = hn::MulAdd(g, hn::Set(d, B[n]), sum_gB);
      const auto ga = hn::Mul(g, a);
      hn::StoreU(ga, d, dh + n * width);
      const auto q = hn::Mul(kNegative ? hn::Add(g, ga) : ga, before);
      minus_sum_qA = hn::MulAdd(q, hn::LoadU(d, minus_A + n * width), minus_sum_qA);
      hn::StoreU(hn::MulAdd(q, dt, hn::LoadU(d, dA_dD + n * width)), d, dA_dD + n * width);
    }
    hn::StoreU(hn::MulAdd(dt, sum_gB, hn::Mul(skip, dy)), d, gradients.dx + at);
    hn::StoreU(hn::MulSub(x, sum_gB, minus_sum_qA), d, gradients.ddt + at);
    dD = hn::MulAdd(dy, x, dD);
  }
  hn::StoreU(dD, d, dA_dD + N * width);
}

// dB and dC of the gradients are this block's own share; dA_dD is added to.
template <bool kNegative>
void backward_block(const SelectiveScanBlock& block, const SelectiveScanGradients& gradients,
                    float* dA_dD) {
  const SelectiveScanInputs& in = block.in;
  BackwardMemory memory(block);
  load_minus_A(block, memory.minus_A);
  for (size_t s = block.begin; s < block.end; ++s) {
    block.load(block.sequence_state(gradients.d_final_state, s), memory.dh);
    const size_t first = in.first_token(s), tokens = in.length(s);
    for (size_t chunk = ceil_div(tokens, kChunk); chunk-- > 0;) {
      const size_t t = first + chunk * kChunk, count = std::min(kChunk, first + tokens - t);
      const float* checkpoint = block.checkpoint(gradients.saved, s, chunk);
      memory.clear_sums();
      for_vectors(block.channels, [&](auto d, size_t c) HWY_ATTR {
        const size_t e = block.first_channel + c;
        recompute<kNegative>(d, in, t, count, e, memory.minus_A + c, checkpoint + c, block.width,
                             memory);
        backward_tokens<kNegative>(d, in, gradients, t, count, e, memory, memory.minus_A + c,
                                   memory.dh + c, dA_dD + c, block.width);
      });
      const hn::ScalableTag<float> d;
      for (size_t i = 0; i < count * in.N; ++i) {
        const auto sum = [&](const float* slots) HWY_ATTR {
          return hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, slots + i * memory.lanes)));
        };
        gradients.dB[t * in.N + i] = sum(memory.dB);
        gradients.dC[t * in.N + i] = sum(memory.dC);
      }
    }
    if (gradients.dstate != nullptr)
      block.store(memory.dh, block.sequence_state(gradients.dstate, s));
  }
}

void scan_forward_target(const SelectiveScanBlock& block, const SelectiveScanOutputs& out) {
  (block.in.negative_eigenvalues ? forward_block<true> : forward_block<false>)(block, out);
}

void scan_backward_target(const SelectiveScanBlock& block, const SelectiveScanGradients& gradients,
                          float* dA_dD) {
  (block.in.negative_eigenvalues ? backward_block<true> : backward_block<false>)(block, gradients,
                                                                                 dA_dD);
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
namespace {

HWY_EXPORT(scan_forward_target);
HWY_EXPORT(scan_backward_target);

// Blocks of some sequences and a group of channels, in an order that depends on the shape alone.
class Blocks {
 public:
  explicit Blocks(const SelectiveScanInputs& in)
      : groups(SelectiveScanBlock::num_groups(in)),
        sequences_(ceil_div(in.num_sequences, kMaxBundles)),
        in_(in) {
    bundles = in.num_sequences == 0 ? 0 : ceil_div(in.num_sequences, sequences_);
  }

  /// Calls f(block, bundle of sequences, group of channels) for each.
  template <class F>
  void run(Executor& executor, const F& f) const {
    const std::function<void(size_t)> task = [&](size_t i) {
      const size_t bundle = i / groups, group = i % groups;
      f(SelectiveScanBlock(in_, bundle * sequences_,
                           std::min(in_.num_sequences, (bundle + 1) * sequences_), group),
        bundle, group);
    };
    // Less than this is done sooner than another thread wakes up.
    constexpr size_t kSerialElements = 1 << 13;
    SerialExecutor serial;
    const bool few = (in_.num_tokens() + in_.num_sequences) * in_.E * in_.N <= kSerialElements;
    (few ? serial : executor).run(bundles * groups, task);
  }

  size_t groups, bundles;

 private:
  static constexpr size_t kMaxBundles = 64;  // each has its own sums of dA and dD
  size_t sequences_;                         // of a bundle
  const SelectiveScanInputs& in_;
};

// dA and dD from the blocks' sums [bundles,groups,N+1,width].
void reduce(const SelectiveScanInputs& in, const Blocks& blocks, const float* partial,
            const SelectiveScanGradients& gradients) {
  const size_t width = SelectiveScanBlock::group_width(in), size = (in.N + 1) * width;
  std::vector<double> sum(size);
  for (size_t group = 0; group < blocks.groups; ++group) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (size_t bundle = 0; bundle < blocks.bundles; ++bundle) {
      const float* rows = partial + (bundle * blocks.groups + group) * size;
      for (size_t i = 0; i < size; ++i) sum[i] += rows[i];
    }
    const size_t first = group * width;
    for (size_t c = 0; c < std::min(width, in.E - first); ++c) {
      for (size_t n = 0; n < in.N; ++n)
        gradients.dA[(first + c) * in.N + n] = static_cast<float>(sum[n * width + c]);
      if (gradients.dD != nullptr)
        gradients.dD[first + c] = static_cast<float>(sum[in.N * width + c]);
    }
  }
}

}  // namespace

size_t selective_scan_saved_size(const SelectiveScanInputs& in) {
  return SelectiveScanBlock::saved_size(in);
}

void selective_scan_forward(const SelectiveScanInputs& in, const SelectiveScanOutputs& out,
                            Executor& executor) {
  Blocks(in).run(executor, [&](const SelectiveScanBlock& block, size_t, size_t) {
    HWY_DYNAMIC_DISPATCH(scan_forward_target)(block, out);
  });
}

void selective_scan_backward(const SelectiveScanInputs& in, const SelectiveScanGradients& gradients,
                             Executor& executor) {
  const Blocks blocks(in);
  const size_t size = (in.N + 1) * SelectiveScanBlock::group_width(in);
  const size_t rows =
      in.num_tokens() * in.N;  // of dB and of dC; the first group writes the results
  float *partial, *shares;
  const Scratch scratch([&](ScratchLayout& layout) {
    partial = layout.take(blocks.bundles * blocks.groups * size);
    shares = layout.take(2 * (blocks.groups - 1) * rows);
  });
  blocks.run(executor, [&](const SelectiveScanBlock& block, size_t bundle, size_t group) {
    float* dA_dD = partial + (bundle * blocks.groups + group) * size;
    std::fill(dA_dD, dA_dD + size, 0.0f);
    SelectiveScanGradients own = gradients;
    if (group > 0) {
      own.dB = shares + 2 * (group - 1) * rows;
      own.dC = own.dB + rows;
    }
    HWY_DYNAMIC_DISPATCH(scan_backward_target)(block, own, dA_dD);
  });
  for (size_t group = 1; group < blocks.groups; ++group) {
    const float *dB = shares + 2 * (group - 1) * rows, *dC = dB + rows;
    for (size_t i = 0; i < rows; ++i) gradients.dB[i] += dB[i];
    for (size_t i = 0; i < rows; ++i) gradients.dC[i] += dC[i];
  }
  reduce(in, blocks, partial, gradients);
}

}  // namespace dp
#endif
