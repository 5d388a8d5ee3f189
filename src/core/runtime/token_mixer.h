// What a block needs of the part that carries information from token to token: the seam for other kinds of layers.
// M rows of activations, D model width.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/model_config.h"
#include "runtime/workspace.h"

namespace dp::runtime {

/// One layer of a model.
struct LayerShape {
  ModelConfig config;
  float query_scale;  // queries are multiplied with it: 1 / sqrt(K), of the K that the model was made with
};

/// A part of what a layer carries from one token to the next, for one sequence.
struct StatePart {
  std::string name;
  std::vector<int64_t> shape;
  size_t offset = 0, size = 0;  // in floats, within the layer's state
};

/// Consecutive rows of the activations that belong to one sequence, and that sequence's state in this layer.
struct SequenceRows {
  size_t first = 0, count = 0;
  float* state = nullptr;  // read, then replaced
};

class TokenMixer {
 public:
  virtual ~TokenMixer() = default;
  virtual const std::vector<StatePart>& state_parts() const = 0;
  virtual size_t matrix_bytes() const = 0;  // of all matrices, which a token reads once
  /// x [M,D], the block's normalised input; adds the layer's output to residual [M,D]. Sequences cover the M rows in
  /// their order. A state of zeros: nothing seen yet.
  virtual void forward(const float* x, std::span<const SequenceRows> sequences, float* residual,
                       Workspace& workspace) const = 0;
};

/// Floats of a layer's state.
inline size_t state_size(const TokenMixer& mixer) {
  const std::vector<StatePart>& parts = mixer.state_parts();
  return parts.empty() ? 0 : parts.back().offset + parts.back().size;
}

}  // namespace dp::runtime
