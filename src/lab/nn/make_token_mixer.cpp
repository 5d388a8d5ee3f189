#include <stdexcept>

#include "io/model_config.h"
#include "nn/token_mixer.h"

namespace dp {

#define DP_MODEL(id, option, type, name, mixer, traits) \
  std::unique_ptr<TokenMixer> make_##mixer##_mixer(const ModelConfig& config);
#include "io/models.def"
#undef DP_MODEL

std::unique_ptr<TokenMixer> make_token_mixer(const ModelConfig& config) {
  switch (config.architecture) {
#define DP_MODEL(id, option, type, name, mixer, traits) \
  case Architecture::id:                                \
    return make_##mixer##_mixer(config);
#include "io/models.def"
#undef DP_MODEL
  }
  throw std::logic_error("a model of no known architecture");
}

}  // namespace dp
