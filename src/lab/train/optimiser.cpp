#include "train/optimiser.h"

#include "nn/language_model.h"
#include "train/adamw.h"
#include "train/sharded_adamw.h"

namespace dp {

std::unique_ptr<Optimiser> make_optimiser(std::vector<ParameterGroup> groups, AdamWOptions options, World* world) {
  if (world) return std::make_unique<ShardedAdamW>(groups, options, *world);
  return std::make_unique<AdamW>(std::move(groups), options);
}

std::vector<ParameterGroup> parameter_groups(LanguageModel& model, double weight_decay) {
  ParameterGroup decayed{{}, weight_decay}, plain{{}, 0};
  for (const auto& [name, parameter] : model.parameters())
    (parameter->decay ? decayed : plain).parameters.push_back(parameter->value);
  return {decayed, plain};
}

}  // namespace dp
