// The operator and whole models against golden files, for `dp selfcheck`. tests/data/golden/README.md describes the format.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>

#include "base/deviation.h"

namespace dp::golden {

/// max|got - want|, or infinity where that is not a number or the shapes differ.
double absolute_error(const at::Tensor& got, const at::Tensor& want);

// Each throws InputError for a fixture that cannot be used.

/// Every implementation of the operator, forward and gradients, against an op_*.safetensors.
Deviation check_operator_file(const std::filesystem::path& path);
/// A model_*/: logits, residual stream, continuation and state, over whole sequences and step by step.
Deviation check_model_directory(const std::filesystem::path& path);

}  // namespace dp::golden
