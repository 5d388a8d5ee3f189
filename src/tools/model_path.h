// Models on the command line: a directory, a config.json, or the name of a preset.
#pragma once
#include <filesystem>
#include <string>

#include "io/model_config.h"

namespace dp::cli {

/// The directory of the shipped configurations.
std::filesystem::path presets_folder();

/// A directory or file if there is one, else the preset of that name ("340m_n1"). Throws InputError
/// that lists the presets.
ModelConfig find_model_config(const std::string& text);

}  // namespace dp::cli
