// Small models over all options, and an independent reference, for tests.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "nn/language_model.h"

namespace dp {

/// Every combination of options; sizes that are no multiples of anything.
std::vector<ModelConfig> every_config();
/// Sixteen of them in which every option is on and off in many combinations.
std::vector<ModelConfig> test_configs();
/// These sixteen, and each rival with its options on and off.
std::vector<ModelConfig> test_configs_and_rivals();
std::string describe(const ModelConfig& config);

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
