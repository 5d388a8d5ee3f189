// The part of a block that carries information from token to token.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/Optional.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/parameter.h"

namespace dp {

/// A mixer's state between tokens, by name; the first axis of each tensor is the sequence. Sessions copy, save and batch
/// states without knowing the mixer. Empty before the first token.
using MixerState = std::map<std::string, at::Tensor>;

/// The shape of each part of a state, for one sequence. kPerToken: the axis has one entry per token seen.
inline constexpr int64_t kPerToken = -1;
using StateShapes = std::map<std::string, std::vector<int64_t>>;

struct MixerContext {
  c10::optional<at::Tensor> cu_seqlens;  // [S+1] when sequences are packed into one row
  MixerState* state = nullptr;  // read, then replaced; null: start from nothing, keep nothing

  /// A part of the state; none before the first token, or if nothing is carried.
  c10::optional<at::Tensor> find(const std::string& part) const {
    if (state == nullptr) return c10::nullopt;
    const auto found = state->find(part);
    return found == state->end() ? c10::nullopt : c10::make_optional(found->second);
  }
  void keep(const std::string& part, const at::Tensor& value) const {
    if (state != nullptr) (*state)[part] = value;
  }
};

class TokenMixer {
 public:
  virtual ~TokenMixer() = default;
  /// x [B,T,D] float32 -> [B,T,D]
  virtual at::Tensor forward(const at::Tensor& x, const MixerContext& context) const = 0;
  /// The state's shapes after at least one token, without the axis of sequences.
  virtual StateShapes state_shapes() const = 0;
  /// Flops per token of updating and reading the state, without the products with parameters.
  virtual int64_t recurrence_flops() const = 0;
  /// Appends its parameters, with `prefix` before each name.
  virtual void list_parameters(const std::string& prefix, NamedParameters& list) = 0;
};

struct ModelConfig;
/// The mixer of config.architecture.
std::unique_ptr<TokenMixer> make_token_mixer(const ModelConfig& config);

}  // namespace dp
