// Loops over arrays of float32: whole vectors, then one element at a time for what is left over.
#if defined(DP_KERNELS_VECTOR_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_VECTOR_LOOPS_INL_H_
#undef DP_KERNELS_VECTOR_LOOPS_INL_H_
#else
#define DP_KERNELS_VECTOR_LOOPS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {

/// Calls f(tag, i) so that the vectors of Lanes(tag) elements from i on cover 0 .. n-1.
template <class F>
HWY_INLINE void for_vectors(size_t n, const F& f) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) f(d, i);
  for (; i < n; ++i) f(one, i);
}

/// sums[s] becomes the total of what the calls f(tag, i, v) add to the vector v[s]. kTurns vectors per
/// sum take turns: four hide the latency of an addition, one will do where f has more to compute.
template <size_t kTurns, size_t kSums, class F>
HWY_INLINE void sum_vectors(size_t n, float (&sums)[kSums], const F& f) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> v[kTurns][kSums];
  _Pragma("GCC unroll 4") for (auto& turn : v) _Pragma("GCC unroll 4") for (auto& x : turn) x =
      hn::Zero(d);
  size_t i = 0;
  for (; i + kTurns * lanes <= n; i += kTurns * lanes)
    _Pragma("GCC unroll 4") for (size_t t = 0; t < kTurns; ++t) f(d, i + t * lanes, v[t]);
  if constexpr (kTurns > 1)
    for (; i + lanes <= n; i += lanes) f(d, i, v[0]);
  hn::Vec<decltype(one)> rest[kSums];
  _Pragma("GCC unroll 4") for (auto& x : rest) x = hn::Zero(one);
  for (; i < n; ++i) f(one, i, rest);
  _Pragma("GCC unroll 4") for (size_t s = 0; s < kSums; ++s) {
    auto whole = v[0][s];
    _Pragma("GCC unroll 4") for (size_t t = 1; t < kTurns; ++t) whole = hn::Add(whole, v[t][s]);
    sums[s] = hn::GetLane(hn::SumOfLanes(d, whole)) + hn::GetLane(rest[s]);
  }
}

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DP_KERNELS_VECTOR_LOOPS_INL_H_
