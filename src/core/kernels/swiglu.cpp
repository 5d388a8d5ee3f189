#include "kernels/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/swiglu.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/activations-inl.h"
#include "kernels/sizes.h"
#include "kernels/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

void swiglu_forward_target(const float* HWY_RESTRICT gate, const float* HWY_RESTRICT up, size_t n,
                           float* HWY_RESTRICT y) {
  for_vectors(n, [&](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(silu(d, hn::LoadU(d, gate + i)), hn::LoadU(d, up + i)), d, y + i);
  });
}

void swiglu_backward_target(const float* HWY_RESTRICT gate, const float* HWY_RESTRICT up,
                            const float* HWY_RESTRICT dy, size_t n, float* HWY_RESTRICT dgate,
                            float* HWY_RESTRICT dup) {
  for_vectors(n, [&](auto d, size_t i) HWY_ATTR {
    hn::Vec<decltype(d)> s, ds;
    silu_and_derivative(d, hn::LoadU(d, gate + i), s, ds);
    const auto dyv = hn::LoadU(d, dy + i);
    hn::StoreU(hn::Mul(hn::Mul(dyv, hn::LoadU(d, up + i)), ds), d, dgate + i);
    hn::StoreU(hn::Mul(dyv, s), d, dup + i);
  });
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
namespace {

HWY_EXPORT(swiglu_forward_target);
HWY_EXPORT(swiglu_backward_target);

constexpr size_t kTaskElements = 32768;

// f(begin, size) over blocks of 0 .. n-1.
template <class F>
void for_blocks(size_t n, Executor& executor, const F& f) {
  executor.run(ceil_div(n, kTaskElements), [&](size_t task) {
    const size_t begin = task * kTaskElements;
    f(begin, std::min(kTaskElements, n - begin));
  });
}

}  // namespace

void swiglu_forward(const float* gate, const float* up, size_t n, float* y, Executor& executor) {
  for_blocks(n, executor, [&](size_t begin, size_t size) {
    HWY_DYNAMIC_DISPATCH(swiglu_forward_target)(gate + begin, up + begin, size, y + begin);
  });
}

void swiglu_backward(const float* gate, const float* up, const float* dy, size_t n, float* dgate,
                     float* dup, Executor& executor) {
  for_blocks(n, executor, [&](size_t begin, size_t size) {
    HWY_DYNAMIC_DISPATCH(swiglu_backward_target)
    (gate + begin, up + begin, dy + begin, size, dgate + begin, dup + begin);
  });
}

}  // namespace dp
#endif
