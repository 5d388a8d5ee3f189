// Random arguments of delta_product and runs over them, shared by the tests of this folder.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "ops/delta_product.h"

namespace dp {

inline constexpr Implementation kAll[] = {Implementation::kReference, Implementation::kChunked,
                                          Implementation::kFused};

struct TestShape {
  int64_t B = 1, T = 1, N = 1, H = 1, K = 1, V = 1;
  bool gate = false, state = false;
};
std::ostream& operator<<(std::ostream& out, const TestShape& shape);

/// Named tensors: q, k, v, beta, perhaps log_gate and state as arguments; o and state as outputs;
/// and the gradients dq, dk, ..., dstate.
using Tensors = std::map<std::string, at::Tensor>;

/// float64; unit q and k, normal v and state, beta in [0,2], log_gate = log of a sigmoid.
Tensors random_arguments(const TestShape& shape, uint64_t seed);

/// Copies in another dtype, each a leaf that requires a gradient.
Tensors leaves(const Tensors& arguments, at::ScalarType type);

DeltaProductOutput call(const Tensors& arguments, Implementation implementation,
                        const c10::optional<at::Tensor>& cu_seqlens = c10::nullopt,
                        c10::optional<double> scale = c10::nullopt);

/// Outputs and gradients of a random weighted sum of both outputs; the weights depend on `seed`
/// only.
struct TestRun {
  Tensors outputs, gradients;
};
TestRun run_leaves(const Tensors& leaves, Implementation implementation,
                   const c10::optional<at::Tensor>& cu_seqlens = c10::nullopt, uint64_t seed = 99);
/// The same on copies in another dtype.
TestRun run_with_gradients(const Tensors& arguments, at::ScalarType type,
                           Implementation implementation,
                           const c10::optional<at::Tensor>& cu_seqlens = c10::nullopt);

/// max|got - want| <= tolerance * max|want|, with the worst place in the message. NaN never passes.
testing::AssertionResult close(const std::string& name, const at::Tensor& got,
                               const at::Tensor& want, double tolerance);
void expect_close(const Tensors& got, const Tensors& want, double tolerance);
void expect_close(const TestRun& got, const TestRun& want, double tolerance);

}  // namespace dp
