// Every implementation of the operator against a file of inputs and expected results.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
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

[[noreturn]] void fail(const SafetensorsFile& file, const std::string& problem) {
  throw InputError(file.path().string() + ": " + problem);
}

std::string to_text(at::IntArrayRef sizes) { return c10::str(sizes); }

at::Tensor load(const SafetensorsFile& file, const char* name, at::IntArrayRef sizes) {
  at::Tensor tensor = load_tensor(file, name);
  if (!tensor.is_floating_point())
    fail(file, "tensor " + quote(name) + " must hold floating-point numbers");
  if (tensor.sizes() != sizes)
    fail(file, "tensor " + quote(name) + " must have shape " + to_text(sizes) + ", got " +
                   to_text(tensor.sizes()));
  return tensor;
}

Fixture load_fixture(const fs::path& path) {
  const SafetensorsFile file(path);
  const at::Tensor q = load_tensor(file, "q"), k = load_tensor(file, "k"),
                   v = load_tensor(file, "v");
  for (const auto& [name, tensor] : {std::pair("q", q), {"k", k}, {"v", v}})
    if (tensor.dim() != 4)
      fail(file, "tensor " + quote(name) + " must have four dimensions, got shape " +
                     to_text(tensor.sizes()));
  const int64_t B = q.size(0), T = q.size(1), H = q.size(2), K = q.size(3), V = v.size(3);
  if (T == 0 || k.size(1) == 0 || k.size(1) % T != 0)
    fail(file, "tensor 'k' has " + std::to_string(k.size(1)) +
                   " rows, which is not a multiple of the " + std::to_string(T) + " of 'q'");
  const int64_t rows = k.size(1);

  Fixture fixture;
  const auto take = [&](const char* name, at::IntArrayRef sizes) {
    fixture.tensors[name] = load(file, name, sizes);
  };
  const auto take_factors = [&](const char* name, at::IntArrayRef sizes) {
    fixture.tensors[name] = load(file, name, sizes).unflatten(1, {T, rows / T});
  };
  take("scale", {});
  for (const char* name : {"q", "dq"}) take(name, {B, T, H, K});
  for (const char* name : {"k", "dk"}) take_factors(name, {B, rows, H, K});
  for (const char* name : {"v", "dv"}) take_factors(name, {B, rows, H, V});
  for (const char* name : {"beta", "dbeta"}) take_factors(name, {B, rows, H});
  for (const char* name : {"o", "do"}) take(name, {B, T, H, V});
  for (const char* name : {"ht", "dht"}) take(name, {B, H, K, V});
  if (file.find("g"))
    for (const char* name : {"g", "dg"}) take(name, {B, T, H});
  if (file.find("h0"))
    for (const char* name : {"h0", "dh0"}) take(name, {B, H, K, V});
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
