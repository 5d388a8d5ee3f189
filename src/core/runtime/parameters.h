// Every parameter of the models that the runtime runs, under its name in a checkpoint (docs/checkpoints.md).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/model_config.h"

namespace dp::runtime {

struct ParameterShape {
  std::string name;
  std::vector<int64_t> shape;

  int64_t count() const {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return count;
  }
};

/// In the order of nn's LanguageModel::parameters(), in the current layout. A tied head is not listed.
std::vector<ParameterShape> parameter_shapes(const ModelConfig& config);

}  // namespace dp::runtime
