// What a block needs of the part that carries information from token to token.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/Optional.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nn/parameter.h"

namespace dp {

/// What a mixer carries from one token to the next, by name; the first axis of each tensor is the
/// sequence. Sessions copy, save and batch states without knowing the mixer. Empty: nothing seen
/// yet.
using MixerState = std::map<std::string, at::Tensor>;

/// The shape of each part of a state, for one sequence.
using StateShapes = std::map<std::string, std::vector<int64_t>>;

struct MixerContext {
  c10::optional<at::Tensor> cu_seqlens;  // [S+1] when sequences are packed into one row
  MixerState* state = nullptr;  // read, then replaced; null: start from nothing, keep nothing
};

class TokenMixer {
 public:
  virtual ~TokenMixer() = default;
  /// x [B,T,D] float32 -> [B,T,D]
  virtual at::Tensor forward(const at::Tensor& x, const MixerContext& context) const = 0;
  /// Of a state after at least one token: the tensors' shapes without their first axis.
  virtual StateShapes state_shapes() const = 0;
  /// Appends its parameters, with `prefix` before each name.
  virtual void list_parameters(const std::string& prefix, NamedParameters& list) = 0;
};

}  // namespace dp
