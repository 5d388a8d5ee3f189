// Parameters of a model: a name, a shape and how to start; values come later, from initialise() or a file.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dp {

/// How a parameter starts (fla's rules). Only those that start from kNormal are subject to weight
/// decay.
enum class Init {
  kNormal,     // mean 0, standard deviation config.initializer_range
  kOnes,       // norms
  kZeros,      // biases
  kDecayRate,  // A_log: log of uniform in (0,16)
  kTimeStep,   // dt_bias: inverse softplus of a step, log-uniform in [0.001,0.1]
  // Of rivals, by their own publications:
  kStateIndex,   // Mamba's A_log: log of 1 .. N along the last axis
  kDecayLogits,  // RWKV-7: evenly from -6 to -1 along the last axis
  kForgetBias,   // mLSTM and sLSTM: evenly from 3 to 6 over the heads (the first axis)
};

struct Parameter {
  std::vector<int64_t> shape;
  Init init = Init::kNormal;
  at::Tensor value;  // undefined until initialised or loaded; matrices may be bfloat16

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
