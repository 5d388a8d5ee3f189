// Whether files still are what this program wrote.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace dp {

struct FilesReport {
  size_t verified = 0;               // files whose data agrees with the checksums in them
  size_t without_checksums = 0;      // files of other programs, or written before there were any
  std::vector<std::string> damages;  // a sentence for each file that cannot be read or does not agree
};

/// Reads every safetensors file, dataset of tokens and checkpoint's progress at or below `path` and compares their data
/// with their checksums. `looking_at` is called before each. Throws InputError if `path` is not there.
FilesReport verify_files(const std::filesystem::path& path,
                         const std::function<void(const std::filesystem::path&)>& looking_at = {});

}  // namespace dp
