#include "analysis/ablation.h"

#include <ATen/ATen.h>

#include "base/check_input.h"

namespace dp::analysis {

LanguageModel with_heads(const LanguageModel& model, int64_t layer, const std::vector<bool>& kept) {
  const ModelConfig& config = model.config();
  DP_CHECK_INPUT(layer >= 0 && layer < config.num_hidden_layers, "with_heads: no layer ", layer);
  DP_CHECK_INPUT(static_cast<int64_t>(kept.size()) == config.value_heads(),
                 "with_heads: kept must have ", config.value_heads(), " entries, got ",
                 kept.size());
  LanguageModel copy(config);
  const auto values = model.named_values();
  const NamedParameters parameters = copy.parameters();
  for (size_t i = 0; i < values.size(); ++i) parameters[i].parameter->value = values[i].second;

  const std::string name = c10::str("model.layers.", layer, ".attn.o_proj.weight");
  const int64_t V = config.value_head_dim();
  for (const auto& [key, parameter] : parameters) {
    if (key != name) continue;
    parameter->value = parameter->value.detach().clone();
    for (size_t h = 0; h < kept.size(); ++h)
      if (!kept[h]) parameter->value.narrow(1, static_cast<int64_t>(h) * V, V).zero_();
  }
  return copy;
}

}  // namespace dp::analysis
