// Gradients computed by kernels, which torch cannot differentiate again.
#pragma once
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <string>

namespace dp {

/// Runs `compute`, which returns gradients made from `sources` (undefined ones are skipped). Under
/// create_graph the result records that it depends on them, and differentiating it throws an error
/// that says `why_not`. Torch's C++ interface has no once_differentiable of its own.
torch::autograd::variable_list once_differentiable(
    const torch::autograd::variable_list& sources, const std::string& why_not,
    const std::function<torch::autograd::variable_list()>& compute);

}  // namespace dp
