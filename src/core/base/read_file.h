// Small files, whole. base/mapped_file.h is for large ones.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace dp {

/// All bytes of a file, or nothing where it cannot be read; a directory cannot.
std::optional<std::string> read_file(const std::filesystem::path& path);

}  // namespace dp
