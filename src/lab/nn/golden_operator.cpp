// Every implementation of the operator against a file of inputs and expected results.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "io/operator_file.h"
#include "nn/golden.h"
#include "nn/tensors.h"
#include "ops/delta_product.h"

namespace dp::golden {
namespace {
namespace fs = std::filesystem;

using Tensors = std::map<std::string, at::Tensor>;

struct Fixture {
  // k [B,T,N,H,K], v [B,T,N,H,V], beta [B,T,N,H] and their gradients; the rest as in the file
  Tensors tensors;
  bool gated() const { return tensors.contains("g"); }
};

struct Method {
  const char* name;
  Implementation implementation;
  at::ScalarType dtype;
  double tolerance(bool gated) const {
    return operator_tolerance(gated, implementation != Implementation::kReference);
  }
};
constexpr Method kMethods[] = {{"fused", Implementation::kFused, at::kFloat},
                               {"chunked", Implementation::kChunked, at::kFloat},
                               {"reference", Implementation::kReference, at::kFloat},
                               {"reference in float64", Implementation::kReference, at::kDouble}};

Fixture load_fixture(const fs::path& path) {
  const OperatorFile golden(path);
  Fixture fixture;
  for (const auto& [name, shape] : golden.shapes) {
    at::Tensor tensor = load_tensor(golden.file, name);
    if (!tensor.is_floating_point())
      throw InputError(path.string() + ": tensor " + quote(name) +
                       " must hold floating-point numbers");
    const bool per_factor = name.ends_with("k") || name.ends_with("v") || name.ends_with("beta");
    fixture.tensors[name] = per_factor ? tensor.unflatten(1, {golden.T, golden.N}) : tensor;
  }
  return fixture;
}

// o, ht and the gradient of sum(o do) + sum(ht dht) in every input, under the names of the file.
Tensors compute(const Fixture& fixture, const Method& method) {
  Tensors inputs;
  std::vector<std::string> names = {"q", "k", "v", "beta"};
  for (const char* name : {"g", "h0"})
    if (fixture.tensors.contains(name)) names.emplace_back(name);
  std::vector<at::Tensor> leaves;
  for (const std::string& name : names) {
    inputs[name] = fixture.tensors.at(name).to(method.dtype).detach().clone().requires_grad_();
    leaves.push_back(inputs[name]);
  }
  DeltaProductOptions options;
  if (inputs.contains("g")) options.log_gate = inputs["g"];
  if (inputs.contains("h0")) options.state = inputs["h0"];
  options.scale = fixture.tensors.at("scale").item<double>();
  options.implementation = method.implementation;
  const auto [o, state] =
      delta_product(inputs["q"], inputs["k"], inputs["v"], inputs["beta"], options);
  const std::vector<at::Tensor> gradients = torch::autograd::grad(
      {o, state}, leaves,
      {fixture.tensors.at("do").to(method.dtype), fixture.tensors.at("dht").to(method.dtype)});
  Tensors results = {{"o", o.detach()}, {"ht", state.detach()}};
  for (size_t i = 0; i < names.size(); ++i) results["d" + names[i]] = gradients[i];
  return results;
}

// max|got - want| / max|want|
double relative_error(const at::Tensor& got, const at::Tensor& want) {
  const double scale = want.numel() ? want.abs().max().item<double>() : 0;
  const double error = absolute_error(got, want);
  return scale > 0 ? error / scale : error;
}

Deviation compare(const Fixture& fixture) {
  Deviation worst;
  for (const Method& method : kMethods) {
    const double tolerance = method.tolerance(fixture.gated());
    for (const auto& [name, got] : compute(fixture, method)) {
      worst = std::max(worst, {relative_error(got, fixture.tensors.at(name)), tolerance,
                               method.name, name, true});
    }
  }
  return worst;
}

}  // namespace

Deviation check_operator_file(const fs::path& path) { return compare(load_fixture(path)); }

}  // namespace dp::golden
