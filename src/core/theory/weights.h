// The parameters of a model that a program made, and the checkpoint that they become.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "io/model_config.h"
#include "runtime/model.h"

namespace dp::theory {

/// Arrays under the names of docs/checkpoints.md. Their values are those that a file of config.dtype holds.
struct Weights {
  ModelConfig config;
  std::map<std::string, runtime::Array> arrays;

  int64_t parameters() const;
  std::shared_ptr<const runtime::Model> model() const;
};

/// How many numbers a model of this shape has, and the bytes that they take in memory as float32.
int64_t count_parameters(const ModelConfig& config);
inline double weight_bytes(const ModelConfig& config) {
  return 4 * static_cast<double>(count_parameters(config));
}

/// Norms are ones and everything else zeros, for a model without convolution and output gate.
Weights blank_weights(const ModelConfig& config);

/// Rounds all values to config.dtype, float32 or bfloat16.
void round_to_dtype(Weights& weights);

/// Creates the directory if need be. Each file appears only when it is complete, config.json last.
void save_weights(const Weights& weights, const std::filesystem::path& directory);

}  // namespace dp::theory
