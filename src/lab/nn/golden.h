// The operator and whole models against golden files, for `dp selfcheck`. tests/data/golden/README.md describes the format.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

namespace dp::golden {

/// One comparison. The greatest of several is the one closest to, or furthest beyond, its tolerance.
struct Deviation {
  double error = -1, tolerance = 1;
  std::string method, tensor;  // "logits" of "whole sequences"
  bool relative = true;        // to the largest expected element
  bool failed() const { return !(error <= tolerance); }
  bool operator<(const Deviation& other) const {
    return std::pair(failed(), error / tolerance) <
           std::pair(other.failed(), other.error / other.tolerance);
  }
};

struct CheckResult {
  std::string name;
  bool passed = true;
  Deviation worst;
  std::string problem;  // why it failed, when that is not the deviation
};

/// Runs `check`; an InputError or c10::Error that it throws becomes a failed result.
CheckResult run_check(const std::filesystem::path& path, const std::function<Deviation()>& check);

/// max|got - want|, or infinity where that is not a number or the shapes differ.
double absolute_error(const at::Tensor& got, const at::Tensor& want);

/// Every implementation of the operator, forward and gradients, against an op_*.safetensors.
CheckResult check_operator_file(const std::filesystem::path& path);
/// A model_*/: logits, residual stream, continuation and state, over whole sequences and step by step.
CheckResult check_model_directory(const std::filesystem::path& path);

}  // namespace dp::golden
