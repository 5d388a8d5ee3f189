// Models in Hugging Face's form: a directory with config.json and weights.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "io/legacy_names.h"
#include "nn/language_model.h"

namespace dp {

/// Weights stay mapped from their file where their dtype allows: float32 as it is, bfloat16 matrices
/// as they are (used exactly, widened), everything else as float32. Both parameter layouts are read.
/// Throws InputError that names the file and the tensor that is missing, unknown or of another shape.
LanguageModel load_model(const std::filesystem::path& directory);

struct SaveOptions {
  std::optional<std::string> dtype;  // "float32" or "bfloat16"; none: as config.dtype says
  bool legacy_layout = false;        // the paper's older names, one tensor per factor
};

/// Creates the directory if need be. Each file appears only when it is complete, config.json last.
void save_model(const LanguageModel& model, const std::filesystem::path& directory,
                const SaveOptions& options = {});

}  // namespace dp
