#include "nn/model_size.h"

#include "nn/language_model.h"

namespace dp {

ModelSize model_size(const ModelConfig& config) {
  LanguageModel model(config);  // parameters without values cost nothing
  ModelSize size;
  for (const auto& [name, parameter] : model.parameters())
    size.add_parameter(name, parameter->numel(), parameter->shape.size());
  if (config.tie_word_embeddings) size.flops_per_token += 2 * size.embeddings;
  for (const StateShapes& layer : model.state_shapes()) {
    for (const auto& [name, shape] : layer) {
      int64_t bytes = sizeof(float);
      bool grows = false;
      for (const int64_t length : shape) {
        grows = grows || length == kPerToken;
        bytes *= length == kPerToken ? 1 : length;
      }
      (grows ? size.state_bytes_per_token : size.state_bytes) += bytes;
    }
  }
  size.flops_per_token += model.recurrence_flops();
  if (size.state_bytes_per_token > 0) size.flops_per_token_and_length = model.recurrence_flops();
  return size;
}

}  // namespace dp
