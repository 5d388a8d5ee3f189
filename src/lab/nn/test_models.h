// Small models over all options, and an independent reference, for tests.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "nn/language_model.h"
#include "runtime/test_models.h"

namespace dp {

using runtime::describe;
using runtime::every_config;
using runtime::some_configs;
/// Those sixteen, and each rival with its options on and off.
std::vector<ModelConfig> some_configs_and_rivals();

/// A model with weights large enough that nothing is lost in the noise, norms and biases included.
LanguageModel random_model(const ModelConfig& config, uint64_t seed = 1);

at::Tensor random_ids(const ModelConfig& config, int64_t batch, int64_t length);

/// Logits [B,T,vocab] in float64 from the model's definition, one token after another, in operators
/// of torch only. `weights` are the model's by name.
at::Tensor reference_logits(const ModelConfig& config,
                            const std::map<std::string, at::Tensor>& weights,
                            const at::Tensor& ids);

/// The model's values by name, as float64.
std::map<std::string, at::Tensor> named_weights(const LanguageModel& model);

}  // namespace dp
