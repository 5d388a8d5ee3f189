#include "io/model_config.h"
#include "nn/rivals/gla.h"
#include "nn/rivals/mamba.h"
#include "nn/rivals/mlstm.h"
#include "nn/rivals/rwkv7.h"
#include "nn/rivals/slstm.h"
#include "nn/rivals/transformer.h"
#include "nn/delta_product_layer.h"
#include "nn/token_mixer.h"

namespace dp {

std::unique_ptr<TokenMixer> make_token_mixer(const ModelConfig& config) {
  if (config.model_type == "slstm") return std::make_unique<SlstmMixer>(config);
  if (config.model_type == "mamba") return std::make_unique<MambaMixer>(config);
  if (config.model_type == "transformer") return std::make_unique<TransformerMixer>(config);
  if (config.model_type == "gla") return std::make_unique<GlaMixer>(config);
  if (config.model_type == "mlstm") return std::make_unique<MlstmMixer>(config);
  if (config.model_type == "rwkv7_product") return std::make_unique<Rwkv7Mixer>(config);
  return std::make_unique<DeltaProductLayer>(config);  // and (Gated) DeltaNet: one factor
}

}  // namespace dp
