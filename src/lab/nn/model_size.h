// The size of every model, rivals included; runtime/model_size.h has what core needs of it.
#pragma once
#include <utility>

#include "runtime/model_size.h"

namespace dp {

ModelSize model_size(const ModelConfig& config);

inline ModelConfig match_size(ModelConfig base, int64_t parameters, MatchBy by) {
  return match_size(std::move(base), parameters, by, model_size);
}

}  // namespace dp
