// Models with random weights in any dtype, for benchmarks.
#pragma once
#include <memory>
#include <string>

#include "base/executor.h"
#include "runtime/model.h"

namespace dp::cli {

inline constexpr WeightFormat kWeightFormats[] = {WeightFormat::kFloat32, WeightFormat::kBFloat16,
                                                  WeightFormat::kInt8, WeightFormat::kInt4};
/// "float32"
const char* dtype_name(WeightFormat format);

/// A matrix of random weights, and the memory it lies in.
struct RandomMatrix {
  WeightMatrix matrix;
  std::shared_ptr<const void> memory;
};
RandomMatrix random_matrix(WeightFormat format, size_t rows, size_t columns, uint32_t seed);

/// Matrices in the wanted format, everything else in float32.
runtime::NamedTensors random_tensors(const ModelConfig& config, WeightFormat format);
std::shared_ptr<const runtime::Model> random_model(const ModelConfig& config, WeightFormat format);

/// 21.6M parameters, for a machine of any size.
ModelConfig small_config();

/// A directory that goes away with this object.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The model's directory, in float32.
void write_random_model(const ModelConfig& config, const std::filesystem::path& directory);

}  // namespace dp::cli
