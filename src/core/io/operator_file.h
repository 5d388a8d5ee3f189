// A golden file of the operator: inputs, results and gradients. tests/data/golden/README.md describes it.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace dp::golden {

struct OperatorFile {
  /// Throws InputError unless every array is there and has its shape.
  explicit OperatorFile(const std::filesystem::path& path);

  SafetensorsFile file;
  int64_t B, T, N, H, K, V;
  std::map<std::string, std::vector<int64_t>> shapes;  // by name; gate and initial state only if the file has them
};

}  // namespace dp::golden
