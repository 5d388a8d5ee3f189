// Whole files as memory.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace dp {

/// Writing to the memory never reaches the file: the mapping is private.
struct MappedFile {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> mapping;  // keeps `bytes` mapped; null for an empty file
};

/// Throws InputError when `path` is not a readable regular file.
MappedFile map_file(const std::filesystem::path& path);

}  // namespace dp
