// Several far-apart rows of the matrix at a time: as many streams through memory are faster than one,
// and keep the additions of a row from waiting for each other. Every product sums in the same order,
// whichever rows or vectors are computed beside it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matvec.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/matvec.h"
#include "kernels/scratch.h"
#include "kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Lanes>;

// A few vectors of weights as float32, and the vectors of x that they are multiplied with.
struct Float32 {
  using Element = float;
  static constexpr size_t kVectors = 2;

  static HWY_INLINE void load(const float* p, Vec (&out)[kVectors]) {
    const Lanes d;
    out[0] = hn::LoadU(d, p);
    out[1] = hn::LoadU(d, p + hn::Lanes(d));
  }
  static HWY_INLINE float widen(float x) { return x; }
};

// Two bfloat16 are a word: its lower half moved up, and its upper half alone, are the same numbers in
// float32. So even and odd weights come apart, and x must be arranged like them.
struct BFloat16 {
  using Element = uint16_t;
  static constexpr size_t kVectors = 4;

  static HWY_INLINE void load(const uint16_t* p, Vec (&out)[kVectors]) {
    const Lanes d;
    const hn::Rebind<uint32_t, Lanes> words;
    DP_FOR (i, 2) {
      const auto pairs = load_pairs(p + i * 2 * hn::Lanes(d));
      out[2 * i] = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
      out[2 * i + 1] = hn::BitCast(d, hn::And(pairs, hn::Set(words, 0xFFFF0000u)));
    }
  }

  // As load() arranges a row of weights; what is left of whole steps stays as it is.
  static void arrange(const float* x, size_t I, float* out) {
    const Lanes d;
    const size_t lanes = hn::Lanes(d), end = I / (kVectors * lanes) * (kVectors * lanes);
    for (size_t i = 0; i < end; i += 2 * lanes)
      for (size_t j = 0; j < lanes; ++j) {
        out[i + j] = x[i + 2 * j];
        out[i + lanes + j] = x[i + 2 * j + 1];
      }
    std::copy(x + end, x + I, out + end);
  }

  static HWY_INLINE float widen(uint16_t bits) {
    const uint32_t word = uint32_t{bits} << 16;
    float out;
    std::memcpy(&out, &word, sizeof(out));
    return out;
  }

 private:
  static HWY_INLINE hn::Vec<hn::Rebind<uint32_t, Lanes>> load_pairs(const uint16_t* p) {
    const hn::Rebind<uint32_t, Lanes> words;
#if HWY_TARGET == HWY_SCALAR  // has no vectors of two halves
    uint32_t pair;
    std::memcpy(&pair, p, sizeof(pair));
    return hn::Set(words, pair);
#else
    const hn::Repartition<uint16_t, Lanes> halves;
    return hn::BitCast(words, hn::LoadU(halves, p));
#endif
  }
};

// Products of kR rows of the weight, `gap` rows apart, with kM rows of x.
template <class Type, size_t kR, size_t kM>
HWY_INLINE void products(const float* HWY_RESTRICT x,
                         const typename Type::Element* HWY_RESTRICT weight, size_t gap, size_t I,
                         size_t O, float* HWY_RESTRICT y) {
  const Lanes d;
  constexpr size_t kVectors = Type::kVectors;
  const size_t lanes = hn::Lanes(d), step = kVectors * lanes;
  Vec sums[kR][kM];
  DP_FOR (r, kR)
    DP_FOR (m, kM) sums[r][m] = hn::Zero(d);
  size_t i = 0;
  for (; i + step <= I; i += step) {
    DP_FOR (r, kR) {
      Vec w[kVectors];
      Type::load(weight + r * gap * I + i, w);
      DP_FOR (v, kVectors)
        DP_FOR (m, kM)
          sums[r][m] = hn::MulAdd(w[v], hn::LoadU(d, x + m * I + i + v * lanes), sums[r][m]);
    }
  }
  for (size_t r = 0; r < kR; ++r) {
    for (size_t m = 0; m < kM; ++m) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[r][m]));
      for (size_t j = i; j < I; ++j) sum += Type::widen(weight[r * gap * I + j]) * x[m * I + j];
      y[m * O + r * gap] = sum;
    }
  }
}

// All rows of x, up to four at a time: kR kM sums and what they are made of fit into 16 registers.
template <class Type, size_t kR>
HWY_INLINE void all_products(const float* x, const typename Type::Element* weight, size_t gap,
                             size_t M, size_t I, size_t O, float* y) {
  size_t m = 0;
  if constexpr (kR < 4)
    for (; m + 4 <= M; m += 4) products<Type, kR, 4>(x + m * I, weight, gap, I, O, y + m * O);
  switch (M - m) {
    case 1:
      return products<Type, kR, 1>(x + m * I, weight, gap, I, O, y + m * O);
    case 2:
      return products<Type, kR, 2>(x + m * I, weight, gap, I, O, y + m * O);
    case 3:
      return products<Type, kR, 3>(x + m * I, weight, gap, I, O, y + m * O);
  }
}

// Rows [begin, end) of the weight as kR streams through memory.
template <class Type, size_t kR>
void streams(const float* x, const typename Type::Element* weight, size_t M, size_t I, size_t O,
             size_t begin, size_t end, float* y) {
  const size_t gap = (end - begin) / kR;
  for (size_t o = begin; o < begin + gap; ++o)
    all_products<Type, kR>(x, weight + o * I, gap, M, I, O, y + o);
  for (size_t o = begin + kR * gap; o < end; ++o)
    all_products<Type, 1>(x, weight + o * I, 0, M, I, O, y + o);
}

template <class Type>
void rows(const float* x, const typename Type::Element* weight, size_t M, size_t I, size_t O,
          size_t begin, size_t end, float* y) {
  (M < 4 ? streams<Type, 4> : streams<Type, 3>)(x, weight, M, I, O, begin, end, y);
}

void matvec_rows_float32(const float* x, const float* weight, size_t M, size_t I, size_t O,
                         size_t begin, size_t end, float* y) {
  rows<Float32>(x, weight, M, I, O, begin, end, y);
}

void matvec_rows_bfloat16(const float* x, const uint16_t* weight, size_t M, size_t I, size_t O,
                          size_t begin, size_t end, float* y) {
  rows<BFloat16>(x, weight, M, I, O, begin, end, y);
}

void matvec_arrange_bfloat16(const float* x, size_t I, float* out) { BFloat16::arrange(x, I, out); }

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(matvec_rows_float32);
HWY_EXPORT(matvec_rows_bfloat16);
HWY_EXPORT(matvec_arrange_bfloat16);

namespace {

// Bytes of weights per task: enough to hide its start, few enough to balance threads.
constexpr size_t kTaskBytes = 128 << 10;

// Calls rows(begin, end) for blocks of rows of the weight.
template <class Rows>
void for_each_block(size_t O, size_t row_bytes, Executor& executor, const Rows& rows) {
  const size_t per_task = std::max<size_t>(12, kTaskBytes / row_bytes / 12 * 12);
  const size_t tasks = ceil_div(O, per_task);
  if (tasks == 1) return rows(0, O);
  executor.run(tasks,
               [&](size_t task) { rows(task * per_task, std::min(O, (task + 1) * per_task)); });
}

}  // namespace

void matvec(const float* x, const float* weight, size_t M, size_t I, size_t O, float* y,
            Executor& executor) {
  for_each_block(O, I * sizeof(*weight), executor, [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(matvec_rows_float32)(x, weight, M, I, O, begin, end, y);
  });
}

void matvec(const float* x, const uint16_t* weight, size_t M, size_t I, size_t O, float* y,
            Executor& executor) {
  const Scratch scratch(M * I);
  float* const arranged = scratch.data();
  for (size_t m = 0; m < M; ++m)
    HWY_DYNAMIC_DISPATCH(matvec_arrange_bfloat16)(x + m * I, I, arranged + m * I);
  for_each_block(O, I * sizeof(*weight), executor, [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(matvec_rows_bfloat16)(arranged, weight, M, I, O, begin, end, y);
  });
}

}  // namespace dp
#endif
