#include "theory/weights.h"

#include <stdexcept>

#include "base/atomic_file.h"
#include "io/checkpoint.h"
#include "kernels/weight_matrix.h"
#include "runtime/parameters.h"
#include "runtime/stored_floats.h"

namespace dp::theory {

int64_t Weights::parameters() const {
  size_t count = 0;
  for (const auto& [name, array] : arrays) count += array.values.size();
  return static_cast<int64_t>(count);
}

std::shared_ptr<const runtime::Model> Weights::model() const {
  return runtime::Model::from_arrays(config, arrays, runtime::Zeros::kLeaveOut);
}

int64_t count_parameters(const ModelConfig& config) {
  int64_t count = 0;
  for (const auto& parameter : runtime::parameter_shapes(config)) count += parameter.count();
  return count;
}

Weights blank_weights(const ModelConfig& config) {
  if (config.use_short_conv || config.use_output_gate)
    throw std::invalid_argument("blank_weights: expected neither convolution nor output gate");
  Weights weights{config, {}};
  for (const auto& parameter : runtime::parameter_shapes(config)) {
    const float value = parameter.name.ends_with("norm.weight") ? 1.0f : 0.0f;
    weights.arrays[parameter.name] = {
        parameter.shape, std::vector<float>(static_cast<size_t>(parameter.count()), value)};
  }
  return weights;
}

void round_to_dtype(Weights& weights) {
  if (weights.config.dtype != "bfloat16") return;
  for (auto& [name, array] : weights.arrays)
    for (float& value : array.values) value = from_bfloat16(runtime::to_bfloat16(value));
}

void save_weights(const Weights& weights, const std::filesystem::path& directory) {
  const bool halves = weights.config.dtype == "bfloat16";
  std::map<std::string, std::vector<uint16_t>> rounded;
  std::vector<TensorEntry> tensors;
  for (const auto& [name, array] : weights.arrays) {
    std::span<const std::byte> bytes = std::as_bytes(std::span(array.values));
    if (halves) {
      std::vector<uint16_t>& bits = rounded[name];
      for (const float value : array.values) bits.push_back(runtime::to_bfloat16(value));
      bytes = std::as_bytes(std::span(bits));
    }
    tensors.push_back({name, halves ? DType::kBF16 : DType::kF32, array.shape, bytes});
  }
  write_checkpoint(directory, tensors);
  write_file_atomically(directory / "config.json", to_json(weights.config));
}

}  // namespace dp::theory
