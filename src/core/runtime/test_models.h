// Small models over all options, and an independent reference, for tests.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "runtime/model.h"

namespace dp::runtime {

inline constexpr double kLogitTolerance = 1e-4;  // absolute, as for the golden models

using Arrays = std::map<std::string, Array>;

/// Every combination of options; sizes that are no multiples of anything.
std::vector<ModelConfig> every_config();
/// Sixteen of them in which every option is on and off in many combinations.
std::vector<ModelConfig> some_configs();
std::string describe(const ModelConfig& config);

/// Weights large enough that nothing is lost in the noise, norms and biases included.
Arrays random_arrays(const ModelConfig& config, unsigned seed = 1);
std::shared_ptr<const Model> random_model(const ModelConfig& config, unsigned seed = 1);
std::vector<int64_t> random_tokens(const ModelConfig& config, size_t count, unsigned seed = 7);

struct WriteOptions {
  DType dtype = DType::kF32;  // or kBF16, kF16, kF64
  bool legacy = false;        // one tensor per factor
};
/// A checkpoint's directory.
void write_model(const std::filesystem::path& directory, ModelConfig config, const Arrays& arrays,
                 const WriteOptions& options = {});
/// What is left of the arrays in that dtype.
Arrays rounded(Arrays arrays, DType dtype);

/// Logits [T,vocab] in double precision from the model's definition, one token after another.
std::vector<double> reference_logits(const ModelConfig& config, const Arrays& arrays,
                                     const std::vector<int64_t>& tokens);

/// The largest difference; infinite if anything is NaN or the sizes differ.
double distance(std::span<const float> got, std::span<const float> want);
double distance(std::span<const float> got, std::span<const double> want);

}  // namespace dp::runtime
