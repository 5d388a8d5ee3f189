// What `dp selfcheck` finds out about one fixture. tests/data/golden/README.md describes their format.
#pragma once
#include <filesystem>
#include <optional>
#include <span>

#include "base/deviation.h"

namespace dp::cli {

using golden::Deviation;

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
