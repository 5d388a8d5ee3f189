// Helpers for tests of the operators around the recurrence.
#pragma once
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>

#include "base/test_input_error.h"
#include "ops/test_inputs.h"

namespace dp {

using Operator = std::function<at::Tensor(const Tensors&)>;

/// Normal numbers in float64, each of which float32 holds too.
inline at::Tensor normal(at::IntArrayRef sizes, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::kFloat).to(at::kDouble);
}

/// "y" and the gradients "dx", ... of a random weighted sum of it, in float64. `x` are leaves.
inline Tensors output_and_gradients(const Operator& op, const Tensors& x) {
  const at::Tensor y = op(x);
  at::Tensor weights = normal(y.sizes(), 99).to(y.scalar_type());
  (y * weights).sum().backward();
  Tensors found = {{"y", y.detach().to(at::kDouble)}};
  for (const auto& [name, tensor] : x) found["d" + name] = tensor.grad().to(at::kDouble);
  return found;
}

/// First derivatives in float64 against finite differences, and second ones too.
inline void expect_finite_differences_agree(const Operator& op, const Tensors& arguments) {
  const auto loss = [&](const Tensors& x) { return op(x).sin().sum(); };
  const auto slope = [&](const Tensors& x) {  // a scalar made of first derivatives
    std::vector<at::Tensor> inputs;
    for (const auto& [name, tensor] : x) inputs.push_back(tensor);
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (const at::Tensor& g : torch::autograd::grad({loss(x)}, inputs, {}, c10::nullopt, true))
      sum = sum + (g * g).sum();
    return sum;
  };
  for (const bool second : {false, true}) {
    const Tensors x = leaves(arguments, at::kDouble);
    const std::function<at::Tensor(const Tensors&)> f =
        second ? std::function<at::Tensor(const Tensors&)>(slope) : loss;
    f(x).backward();
    for (const auto& [name, tensor] : x) {
      const at::Tensor grad = tensor.grad().reshape({-1});
      for (int64_t i = 0; i < tensor.numel(); ++i) {
        const double step = 1e-5;
        const auto moved = [&](double by) {
          const Tensors y = leaves(x, at::kDouble);
          y.at(name).detach().view({-1})[i].add_(by);
          return f(y).item<double>();
        };
        ASSERT_NEAR(grad[i].item<double>(), (moved(step) - moved(-step)) / (2 * step), 1e-7)
            << (second ? "second" : "first") << " derivative, " << name << "[" << i << "]";
      }
    }
  }
}

/// The message with which the second derivative of sum(y^2) after x is refused.
inline std::string second_derivative_error(const at::Tensor& y, const at::Tensor& x) {
  const auto first = torch::autograd::grad({(y * y).sum()}, {x}, {}, /*retain_graph=*/true,
                                           /*create_graph=*/true);
  try {
    first[0].sum().backward();
  } catch (const c10::Error& error) {
    return error.msg();
  }
  return "no error";
}

}  // namespace dp
