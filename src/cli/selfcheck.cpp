// dp selfcheck: every implementation of the operator against files of inputs and expected results,
// whose format tests/data/golden/README.md describes.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "io/tensors.h"
#include "ops/delta_product.h"

namespace dp::cli {
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
  // Largest error relative to the largest expected element. A running sum of gates of -30 costs the
  // chunked forms about 1e-5 by itself.
  double tolerance(bool gated) const {
    return gated && implementation != Implementation::kReference ? 1e-4 : 1e-5;
  }
};
constexpr Method kMethods[] = {{"fused", Implementation::kFused, at::kFloat},
                               {"chunked", Implementation::kChunked, at::kFloat},
                               {"reference", Implementation::kReference, at::kFloat},
                               {"reference in float64", Implementation::kReference, at::kDouble}};

// The largest error of one file, among those beyond their tolerance if there are any.
struct Worst {
  double error = -1, tolerance = 0;
  std::string method, tensor;
  bool failed() const { return error > tolerance; }
  bool operator<(const Worst& other) const {
    return std::pair(failed(), error) < std::pair(other.failed(), other.error);
  }
};

struct Result {
  enum class Status { kPassed, kFailed, kSkipped };
  std::string name;
  Status status = Status::kPassed;
  Worst worst;
  std::string problem;  // why it failed or was skipped, when that is not the error
};

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

// max|got - want| / max|want|, or infinity where that is not a number.
double relative_error(const at::Tensor& got, const at::Tensor& want) {
  const double scale = want.numel() ? want.abs().max().item<double>() : 0;
  const double error =
      want.numel() ? (got.to(at::kDouble) - want.to(at::kDouble)).abs().max().item<double>() : 0;
  const double relative = scale > 0 ? error / scale : error;
  return std::isfinite(relative) ? relative : std::numeric_limits<double>::infinity();
}

Worst check(const Fixture& fixture) {
  Worst worst;
  for (const Method& method : kMethods) {
    const double tolerance = method.tolerance(fixture.gated());
    for (const auto& [name, got] : compute(fixture, method)) {
      worst = std::max(
          worst, {relative_error(got, fixture.tensors.at(name)), tolerance, method.name, name});
    }
  }
  return worst;
}

Result check_file(const fs::path& path) {
  Result result{.name = path.stem().string(), .status = {}, .worst = {}, .problem = {}};
  try {
    result.worst = check(load_fixture(path));
    result.status = result.worst.failed() ? Result::Status::kFailed : Result::Status::kPassed;
  } catch (const InputError& error) {
    result.problem = error.what();
  } catch (const c10::Error& error) {
    result.problem = path.string() + ": " + error.what_without_backtrace();
  }
  if (!result.problem.empty()) result.status = Result::Status::kFailed;
  return result;
}

void print(const Result& result) {
  if (result.status == Result::Status::kSkipped) {
    std::printf("SKIP %s: %s\n", result.name.c_str(), result.problem.c_str());
  } else if (!result.problem.empty()) {
    std::printf("FAIL %s: %s\n", result.name.c_str(), result.problem.c_str());
  } else {
    std::printf("%s %s: largest relative error %.1e in %s of %s (tolerance %.0e)\n",
                result.status == Result::Status::kPassed ? "PASS" : "FAIL", result.name.c_str(),
                result.worst.error, result.worst.tensor.c_str(), result.worst.method.c_str(),
                result.worst.tolerance);
  }
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const Result& result) {
  constexpr const char* kNames[] = {"passed", "failed", "skipped"};
  nlohmann::ordered_json json = {{"name", result.name},
                                 {"status", kNames[static_cast<int>(result.status)]}};
  if (!result.problem.empty()) {
    json["problem"] = result.problem;
  } else {
    json["error"] = result.worst.error;  // null when infinite
    json["tolerance"] = result.worst.tolerance;
    json["tensor"] = result.worst.tensor;
    json["implementation"] = result.worst.method;
  }
  return json;
}

std::vector<fs::path> list_fixtures(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw InputError("--fixtures: " + quote(folder.string()) + " is not a directory");
  std::vector<fs::path> paths;
  for (const fs::directory_entry& item : fs::directory_iterator(folder, error)) {
    const std::string name = item.path().filename().string();
    const bool is_op = name.starts_with("op_") && name.ends_with(".safetensors");
    if (is_op || (name.starts_with("model_") && item.is_directory())) paths.push_back(item.path());
  }
  if (error)
    throw InputError("--fixtures: cannot read " + quote(folder.string()) + ": " + error.message());
  if (paths.empty())
    throw InputError("--fixtures: " + quote(folder.string()) +
                     " holds no op_*.safetensors and no model_*/");
  std::ranges::sort(paths);
  return paths;
}

int selfcheck(const std::string& folder, const JsonOption& json) {
  const std::vector<fs::path> paths = list_fixtures(folder);
  json.check();
  size_t counts[3] = {};
  auto files = nlohmann::ordered_json::array();
  for (const fs::path& path : paths) {
    const bool is_model = path.filename().string().starts_with("model_");
    const Result result = is_model ? Result{path.filename().string(),
                                            Result::Status::kSkipped,
                                            {},
                                            "models are not supported yet"}
                                   : check_file(path);
    print(result);
    ++counts[static_cast<int>(result.status)];
    files.push_back(to_json(result));
  }
  const auto [passed, failed, skipped] = counts;
  json.write({{"passed", passed}, {"failed", failed}, {"skipped", skipped}, {"files", files}});
  if (skipped) std::printf("%zu skipped\n", skipped);
  std::printf("%zu passed, %zu failed\n", passed, failed);
  return failed ? 1 : 0;
}

}  // namespace

Run add_selfcheck(CLI::App& app) {
  struct Options {
    std::string folder;
    JsonOption json;
    ThreadsOption threads;
  };
  auto options = std::make_shared<Options>();
  app.add_option("--fixtures", options->folder,
                 "directory of op_*.safetensors (and model_*/) to check")
      ->type_name("DIR")
      ->required();
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] {
    options->threads.apply();
    return selfcheck(options->folder, options->json);
  };
}

}  // namespace dp::cli
