// Loops over arrays of float32: whole vectors, then one element at a time for what is left over.
#if defined(DP_KERNELS_VECTOR_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_VECTOR_LOOPS_INL_H_
#undef DP_KERNELS_VECTOR_LOOPS_INL_H_
#else
#define DP_KERNELS_VECTOR_LOOPS_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/unroll.h"

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

/// sums[s] becomes the total of what the calls f(tag, i, v) add to the vector v[s]. Each sum has kAccumulators vectors:
/// four hide the latency of an addition, one is enough where f computes more.
template <size_t kAccumulators, size_t kSums, class F>
HWY_INLINE void sum_vectors(size_t n, float (&sums)[kSums], const F& f) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> v[kAccumulators][kSums];
  DP_FOR (a, kAccumulators)
    DP_FOR (s, kSums) v[a][s] = hn::Zero(d);
  size_t i = 0;
  for (; i + kAccumulators * lanes <= n; i += kAccumulators * lanes)
    DP_FOR (a, kAccumulators) f(d, i + a * lanes, v[a]);
  if constexpr (kAccumulators > 1)
    for (; i + lanes <= n; i += lanes) f(d, i, v[0]);
  hn::Vec<decltype(one)> rest[kSums];
  DP_FOR (s, kSums) rest[s] = hn::Zero(one);
  for (; i < n; ++i) f(one, i, rest);
  DP_FOR (s, kSums) {
    auto sum = v[0][s];
    DP_UNROLL(32)
    for (size_t a = 1; a < kAccumulators; ++a) sum = hn::Add(sum, v[a][s]);
    sums[s] = hn::GetLane(hn::SumOfLanes(d, sum)) + hn::GetLane(rest[s]);
  }
}

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DP_KERNELS_VECTOR_LOOPS_INL_H_
