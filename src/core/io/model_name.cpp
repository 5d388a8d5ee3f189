#include "io/model_name.h"

#include "base/error.h"
#include "base/quote.h"

namespace dp {
namespace {

struct KnownModel {
  Architecture architecture;
  const char *option, *name;
  unsigned traits;

  bool has(ModelTrait trait) const { return (traits & trait) != 0; }
};

constexpr KnownModel kKnownModels[] = {
#define DP_MODEL(id, option, type, name, mixer, traits) {Architecture::id, option, name, traits},
#include "io/models.def"
#undef DP_MODEL
};

const KnownModel& known_model(const ModelConfig& config) {
  return kKnownModels[static_cast<size_t>(config.architecture)];
}

}  // namespace

std::string architecture_name(const ModelConfig& config) {
  const KnownModel& model = known_model(config);
  std::string name = model.name;
  if (config.architecture == Architecture::kDeltaProduct && config.use_forget_gate) name.insert(0, "Gated ");
  // RWKV-7 is the one with one factor.
  const bool number = config.architecture == Architecture::kDeltaProduct || config.num_householder > 1;
  if (model.has(kHasFactors) && number) name += "_" + std::to_string(config.num_householder);
  return name;
}

std::string model_name(const ModelConfig& config) {
  if (!known_model(config).has(kHasEigenvalues)) return architecture_name(config);
  return architecture_name(config) + (config.allow_neg_eigval ? " [-1,1]" : " [0,1]");
}

std::vector<std::string> model_options() {
  std::vector<std::string> options;
  for (const KnownModel& model : kKnownModels) options.emplace_back(model.option);
  return options;
}

std::vector<std::string> models_with(ModelTrait trait) {
  std::vector<std::string> options;
  for (const KnownModel& model : kKnownModels)
    if (model.has(trait)) options.emplace_back(model.option);
  return options;
}

Architecture parse_model_option(const std::string& option) {
  for (const KnownModel& model : kKnownModels)
    if (option == model.option) return model.architecture;
  throw InputError("model " + quote(option) + " is unknown");
}

std::string model_option(const ModelConfig& config) { return known_model(config).option; }

}  // namespace dp
