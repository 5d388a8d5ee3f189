#include "io/model_name.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/text.h"

namespace dp {
namespace {

struct KnownModel {
  const char *option, *type, *name;
  bool has_range;    // of eigenvalues, to choose
  bool has_factors;  // num_householder
};

constexpr KnownModel kKnownModels[] = {
    {"deltaproduct", "gated_deltaproduct", "DeltaProduct", true, true},
    {"delta-net", "delta_net", "DeltaNet", true, false},
    {"gated-delta-net", "gated_deltanet", "Gated DeltaNet", true, false},
    {"transformer", "transformer", "Transformer", false, false},
    {"gla", "gla", "GLA", false, false},
    {"mamba", "mamba", "Mamba", true, false},
    {"mlstm", "mlstm", "mLSTM", false, false},
    {"slstm", "slstm", "sLSTM", false, false},
    {"rwkv7", "rwkv7_product", "RWKV-7", true, true}};

// "gated_delta_product", another name of the first, is that one.
const KnownModel& known_model(const ModelConfig& config) {
  const auto* found = std::ranges::find(kKnownModels, config.model_type,
                                        [](const KnownModel& m) { return std::string(m.type); });
  return found == std::end(kKnownModels) ? kKnownModels[0] : *found;
}

}  // namespace

std::string architecture_name(const ModelConfig& config) {
  const KnownModel& model = known_model(config);
  std::string name = model.name;
  if (&model == kKnownModels && config.use_forget_gate) name.insert(0, "Gated ");
  // RWKV-7 is the one with one factor.
  const bool number = &model == kKnownModels || config.num_householder > 1;
  if (model.has_factors && number) name += "_" + std::to_string(config.num_householder);
  return name;
}

std::string model_name(const ModelConfig& config) {
  if (!known_model(config).has_range) return architecture_name(config);
  return architecture_name(config) + (config.allow_neg_eigval ? " [-1,1]" : " [0,1]");
}

std::vector<std::string> model_options() {
  std::vector<std::string> options;
  for (const KnownModel& model : kKnownModels) options.emplace_back(model.option);
  return options;
}

std::string model_type_of(const std::string& option) {
  for (const KnownModel& model : kKnownModels)
    if (option == model.option) return model.type;
  throw InputError("model " + quote(option) + " is unknown");
}

std::string model_option(const ModelConfig& config) { return known_model(config).option; }

}  // namespace dp
