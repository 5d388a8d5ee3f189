// A parameter's declaration (shape, initialiser, weight decay) and its value.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dp {

/// How a parameter starts. Where the two schemes of initialise() differ, a role is named.
enum class Init {
  kNormal,           // mean 0, standard deviation config.initializer_range
  kMixerProjection,  // matrices in and out of the DeltaProduct layer
  kMixerConv,        // its short convolutions
  kMlpOutput,        // the MLP's projection onto the residual stream
  kOnes,             // norms
  kZeros,            // biases
  kDecayRate,        // A_log: log of uniform in (0,16)
  kTimeStep,         // dt_bias: inverse softplus of a step, log-uniform in [0.001,0.1]
  // As the rivals' own publications initialise them:
  kStateIndex,   // Mamba's A_log: log of 1 .. N along the last axis
  kDecayLogits,  // RWKV-7: evenly from -6 to -1 along the last axis
  kForgetBias,   // mLSTM and sLSTM: evenly from 3 to 6 over the heads (the first axis)
};

struct Parameter {
  std::vector<int64_t> shape;
  Init init = Init::kNormal;
  bool decay = false;   // subject to weight decay
  int64_t stacked = 1;  // equal matrices along the first axis, one per Householder factor
  at::Tensor value;     // undefined until initialised or loaded; matrices may be bfloat16

  /// A weight matrix or convolution: decays.
  static Parameter matrix(std::vector<int64_t> shape, Init init = Init::kNormal,
                          int64_t stacked = 1) {
    return {std::move(shape), init, /*decay=*/true, stacked, {}};
  }
  /// A norm, bias, or rate: does not decay.
  static Parameter vector(std::vector<int64_t> shape, Init init) {
    return {std::move(shape), init, /*decay=*/false, 1, {}};
  }

  int64_t numel() const {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    return count;
  }
};

/// A parameter under its name in a checkpoint.
struct NamedParameter {
  std::string name;
  Parameter* parameter;
};
using NamedParameters = std::vector<NamedParameter>;

}  // namespace dp
