// Trading time for memory in training: activations are computed again when the backward pass needs them.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

namespace dp {

/// f(x), keeping nothing for the backward pass but x: that calls f again. f must be a pure function of x and of
/// parameters, whose gradients are added to theirs as in any backward pass. Without a gradient it is f(x).
at::Tensor recomputed(const std::function<at::Tensor(const at::Tensor&)>& f, const at::Tensor& x);

}  // namespace dp
