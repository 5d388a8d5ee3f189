// Layers without what nobody reads: compiled models give all layers the shape of the largest.
#pragma once
#include <vector>

#include "io/model_config.h"
#include "runtime/token_mixer.h"
#include "runtime/weights.h"

namespace dp::runtime {

/// The layers as they are.
std::vector<LayerShape> whole_layers(const ModelConfig& config);

/// Removes, layer by layer, heads and units of the MLP whose outputs are multiplied with 0 only, and coordinates of keys
/// and queries that are always 0; keeps one of each at least. Layers have fewer heads, units and coordinates then, and
/// compute the same. Models with convolutions, output gates, heads that share keys, or weights that are
/// not floating-point stay as they are.
std::vector<LayerShape> trim_layers(const ModelConfig& config, NamedTensors& tensors);

}  // namespace dp::runtime
