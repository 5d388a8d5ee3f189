#include "ops/test_inputs.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

namespace dp {
namespace {

at::Tensor unit_rows(const at::Tensor& x) { return x / x.norm(2, -1, /*keepdim=*/true); }

c10::optional<at::Tensor> find(const Tensors& tensors, const std::string& name) {
  const auto it = tensors.find(name);
  return it == tensors.end() ? c10::nullopt : c10::make_optional(it->second);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const TestShape& s) {
  return out << "B=" << s.B << " T=" << s.T << " N=" << s.N << " H=" << s.H << " K=" << s.K
             << " V=" << s.V << (s.gate ? " gate" : "") << (s.state ? " state" : "");
}

Tensors random_arguments(const TestShape& s, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto normal = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, generator, at::kDouble);
  };
  Tensors x;
  x["q"] = unit_rows(normal({s.B, s.T, s.H, s.K}));
  x["k"] = unit_rows(normal({s.B, s.T, s.N, s.H, s.K}));
  x["v"] = normal({s.B, s.T, s.N, s.H, s.V});
  x["beta"] = 2 * normal({s.B, s.T, s.N, s.H}).sigmoid();
  if (s.gate) x["log_gate"] = normal({s.B, s.T, s.H}).sigmoid().log();
  if (s.state) x["state"] = normal({s.B, s.H, s.K, s.V});
  // Every argument is a float32 number, so that all dtypes start from the same values.
  for (auto& [name, tensor] : x) tensor = tensor.to(at::kFloat).to(at::kDouble);
  return x;
}

Tensors leaves(const Tensors& arguments, at::ScalarType type) {
  Tensors x;
  for (const auto& [name, tensor] : arguments)
    x[name] = tensor.detach().to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_();
  return x;
}

DeltaProductOutput call(const Tensors& x, Implementation implementation,
                        const c10::optional<at::Tensor>& cu_seqlens, c10::optional<double> scale) {
  DeltaProductOptions options;
  options.log_gate = find(x, "log_gate");
  options.state = find(x, "state");
  options.cu_seqlens = cu_seqlens;
  options.scale = scale;
  options.implementation = implementation;
  return delta_product(x.at("q"), x.at("k"), x.at("v"), x.at("beta"), options);
}

TestRun run_leaves(const Tensors& x, Implementation implementation,
                   const c10::optional<at::Tensor>& cu_seqlens, uint64_t seed) {
  const DeltaProductOutput output = call(x, implementation, cu_seqlens);
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto weights = [&](const at::Tensor& like) {
    return at::randn(like.sizes(), generator, at::kFloat).to(like.scalar_type());
  };
  const at::Tensor d_o = weights(output.o), d_state = weights(output.state);
  std::vector<at::Tensor> inputs;
  for (const auto& [name, tensor] : x) inputs.push_back(tensor);
  const auto grads = torch::autograd::grad({output.o, output.state}, inputs, {d_o, d_state});
  TestRun run;
  run.outputs = {{"o", output.o.detach()}, {"state", output.state.detach()}};
  size_t i = 0;
  for (const auto& [name, tensor] : x) run.gradients["d" + name] = grads[i++];
  return run;
}

TestRun run_with_gradients(const Tensors& arguments, at::ScalarType type,
                           Implementation implementation,
                           const c10::optional<at::Tensor>& cu_seqlens) {
  return run_leaves(leaves(arguments, type), implementation, cu_seqlens);
}

testing::AssertionResult close(const std::string& name, const at::Tensor& got,
                               const at::Tensor& want, double tolerance) {
  if (got.sizes() != want.sizes())
    return testing::AssertionFailure()
           << name << ": shape " << got.sizes() << ", want " << want.sizes();
  if (want.numel() == 0) return testing::AssertionSuccess();
  const at::Tensor a = got.detach().to(at::kDouble).flatten(),
                   b = want.detach().to(at::kDouble).flatten();
  const at::Tensor error = (a - b).abs();
  const double largest = b.abs().max().item<double>(), worst = error.max().item<double>();
  // Where the answer is exactly zero, rounding of what cancels is no error.
  if (worst <= tolerance * std::max(largest, 1e-6)) return testing::AssertionSuccess();
  const int64_t at = error.argmax().item<int64_t>();
  return testing::AssertionFailure()
         << name << ": error " << worst << " = " << worst / largest
         << " of the largest value, at flat index " << at << " of shape " << want.sizes()
         << ": got " << a[at].item<double>() << ", want " << b[at].item<double>();
}

void expect_close(const Tensors& got, const Tensors& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) EXPECT_TRUE(close(name, got.at(name), tensor, tolerance));
}

void expect_close(const TestRun& got, const TestRun& want, double tolerance) {
  expect_close(got.outputs, want.outputs, tolerance);
  expect_close(got.gradients, want.gradients, tolerance);
}

}  // namespace dp
