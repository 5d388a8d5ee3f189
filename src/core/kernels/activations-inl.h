// Sigmoid and SiLU on vectors of float32. Finite for every finite x.
// Chains of some 25 dependent operations: the forms for arrays of vectors interleave the chains, which
// takes a tenth less time (Zen 3).
#if defined(DP_KERNELS_ACTIVATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DP_KERNELS_ACTIVATIONS_INL_H_
#undef DP_KERNELS_ACTIVATIONS_INL_H_
#else
#define DP_KERNELS_ACTIVATIONS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <limits>

#include "kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {

/// e = exp(-x), for sigmoids: relative error 1.2e-7; infinity below x = -88.4, 0 above 87.7.
/// Half the time of hn::Exp, which also handles results too small to matter beside 1.
template <class D, class V, size_t kN>
HWY_INLINE void exp_minus(D d, const V (&x)[kN], V (&e)[kN]) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  // exp(t) = 2^n exp(r), |r| <= log(2) / 2. The bounds give n in [-127, 128], and the ends of that
  // give 0 and infinity.
  V t[kN], power[kN], n[kN], p[kN];
  DP_FOR (i, kN) t[i] = hn::Min(hn::Max(hn::Neg(x[i]), hn::Set(d, -88.0f)), hn::Set(d, 89.0f));
  // Adding 1.5 * 2^23 rounds to an integer in the low bits of the sum: n plus the exponent's bias.
  const V round = hn::Set(d, 12582912.0f + 127.0f);
  DP_FOR (i, kN) n[i] = hn::MulAdd(t[i], hn::Set(d, 1.44269504f), round);
  DP_FOR (i, kN) power[i] = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, n[i])));
  DP_FOR (i, kN) n[i] = hn::Sub(n[i], round);
  // r = t - n log(2), with log(2) in two parts; n times the first is exact.
  DP_FOR (i, kN) t[i] = hn::NegMulAdd(n[i], hn::Set(d, 0.693145752f), t[i]);
  DP_FOR (i, kN) t[i] = hn::NegMulAdd(n[i], hn::Set(d, 1.42860677e-6f), t[i]);
  // exp(r) = 1 + r + r^2 p(r), least maximum error 3.2e-9
  const V c6 = hn::Set(d, 0.00138138806f), c5 = hn::Set(d, 0.00836906346f);
  DP_FOR (i, kN) p[i] = hn::MulAdd(t[i], c6, c5);
  DP_FOR (i, kN) p[i] = hn::MulAdd(t[i], p[i], hn::Set(d, 0.0416684218f));
  DP_FOR (i, kN) p[i] = hn::MulAdd(t[i], p[i], hn::Set(d, 0.166665178f));
  DP_FOR (i, kN) p[i] = hn::MulAdd(t[i], p[i], hn::Set(d, 0.499999933f));
  DP_FOR (i, kN) p[i] = hn::MulAdd(hn::Mul(t[i], t[i]), p[i], t[i]);
  // infinity + infinity * p would be NaN
  DP_FOR (i, kN) e[i] = hn::Mul(power[i], hn::Add(hn::Set(d, 1.0f), p[i]));
}

/// y = x sigmoid(x)
template <class D, class V, size_t kN>
HWY_INLINE void silu(D d, const V (&x)[kN], V (&y)[kN]) {
  namespace hn = hwy::HWY_NAMESPACE;
  V e[kN];
  exp_minus(d, x, e);
  DP_FOR (i, kN) y[i] = hn::Div(x[i], hn::Add(hn::Set(d, 1.0f), e[i]));
}

/// y = silu(x), dy = its derivative sigmoid(x) + y (1 - sigmoid(x)).
template <class D, class V, size_t kN>
HWY_INLINE void silu_and_derivative(D d, const V (&x)[kN], V (&y)[kN], V (&dy)[kN]) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V one = hn::Set(d, 1.0f);
  V e[kN], s[kN];
  exp_minus(d, x, e);
  DP_FOR (i, kN) s[i] = hn::Div(one, hn::Add(one, e[i]));
  // 1 - s = e s loses nothing to cancellation. Where e is infinite, s and y are 0, and so must dy be.
  DP_FOR (i, kN) e[i] = hn::Min(e[i], hn::Set(d, std::numeric_limits<float>::max()));
  DP_FOR (i, kN) y[i] = hn::Mul(x[i], s[i]);
  DP_FOR (i, kN) dy[i] = hn::MulAdd(y[i], hn::Mul(e[i], s[i]), s[i]);
}

/// 1 / (1 + exp(-x))
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V one = hn::Set(d, 1.0f), xs[1] = {x};
  V e[1];
  exp_minus(d, xs, e);
  return hn::Div(one, hn::Add(one, e[0]));
}

template <class D, class V>
HWY_INLINE V silu(D d, V x) {
  const V xs[1] = {x};
  V y[1];
  silu(d, xs, y);
  return y[0];
}

template <class D, class V>
HWY_INLINE void silu_and_derivative(D d, V x, V& y, V& dy) {
  const V xs[1] = {x};
  V ys[1], dys[1];
  silu_and_derivative(d, xs, ys, dys);
  y = ys[0], dy = dys[0];
}

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DP_KERNELS_ACTIVATIONS_INL_H_
