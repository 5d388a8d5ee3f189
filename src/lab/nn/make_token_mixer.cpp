#include "io/model_config.h"
#include "nn/token_mixer.h"

namespace dp {

#define DP_MODEL(option, type, name, mixer, traits) \
  std::unique_ptr<TokenMixer> make_##mixer##_mixer(const ModelConfig& config);
#include "io/models.def"
#undef DP_MODEL

std::unique_ptr<TokenMixer> make_token_mixer(const ModelConfig& config) {
#define DP_MODEL(option, type, name, mixer, traits) \
  if (config.model_type == type) return make_##mixer##_mixer(config);
#include "io/models.def"
#undef DP_MODEL
  return make_delta_product_mixer(config);  // under its other name, gated_delta_product
}

}  // namespace dp
