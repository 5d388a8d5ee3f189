// What `dp selfcheck` finds out about one fixture. tests/data/golden/README.md describes their format.
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace dp::cli {

/// One comparison; of several, max() is the one closest to, or furthest beyond, its tolerance.
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

// Absolute tolerances of models.
inline constexpr double kLogitTolerance = 1e-4, kStateTolerance = 2e-5;
/// Largest error of the operator relative to the largest expected element. A running sum of gates of -30 costs the
/// chunked forms about 1e-5 by itself.
inline double operator_tolerance(bool gated, bool chunked) { return gated && chunked ? 1e-4 : 1e-5; }

/// max|got - want|, or infinity where that is not a number or the sizes differ.
double absolute_error(std::span<const float> got, std::span<const float> want);

// Each throws InputError for a fixture that cannot be used, or a continuation that differs.

/// The kernels, forward and gradients, against an op_*.safetensors.
Deviation check_kernels(const std::filesystem::path& file);
/// The runtime against a model_*/: logits, residual stream, continuation and state, over whole sequences and step by step.
Deviation check_runtime(const std::filesystem::path& directory);

/// The same of the lab: every implementation of the operator, and nn. None in a program without it.
std::optional<Deviation> check_operator(const std::filesystem::path& file);
std::optional<Deviation> check_nn(const std::filesystem::path& directory);

}  // namespace dp::cli
