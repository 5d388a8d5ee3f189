// parse_model_config, and back.
#include "io/model_config.h"

#include "base/error.h"
#include "target.h"

DP_FUZZ_TARGET(model_config, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  dp::ModelConfig config;
  try {
    config = dp::parse_model_config({reinterpret_cast<const char*>(data), size}, "f");
  } catch (const dp::InputError&) {
    return 0;
  }
  require(config.query_width() > 0 && config.key_width() > 0 && config.value_width() > 0 &&
              config.mlp_width() > 0,
          "widths are positive");
  const std::string text = dp::to_json(config);
  dp::ModelConfig again = dp::parse_model_config(text, "f");
  require(dp::to_json(again) == text, "what was written once is written the same again");
  again.other_fields.erase("architectures");  // a file without it gets it
  config.other_fields.erase("architectures");
  require(again == config, "what is written is read back");
  return 0;
}
