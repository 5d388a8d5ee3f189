// Queries, keys or values: a projection of the tokens, convolved over time.
#pragma once
#include <string>

#include "io/model_config.h"
#include "nn/token_mixer.h"

namespace dp {

/// C channels: projection [C,D], and with config.use_short_conv a causal convolution of W taps per channel,
/// weight [C,1,W] and, with config.conv_bias, bias [C].
class ConvStream {
 public:
  ConvStream() = default;
  /// `letter` is in the names of parameters, q_proj and q_conv1d, and of the state's part, conv_q. `stacked`: how many equal
  /// projections lie below one another, one per Householder factor.
  ConvStream(const ModelConfig& config, char letter, int64_t channels, int64_t stacked = 1);

  /// x [B,T,D] -> silu(conv(projection x)) [B,T,C], each `head_size` channels brought to unit length unless that
  /// is 0. Without the convolution: silu(projection x). Carries the last W inputs of the convolution on in the state.
  at::Tensor forward(const at::Tensor& x, int64_t head_size, const MixerContext& context) const;
  /// projection x alone.
  at::Tensor project(const at::Tensor& x) const;

  bool has_conv() const { return width_ > 0; }
  /// The state's part, for one sequence, if there is a convolution.
  void add_state(StateShapes& shapes) const;
  void list_projection(const std::string& prefix, NamedParameters& list);
  void list_conv(const std::string& prefix, NamedParameters& list);

 private:
  std::string letter_;
  int64_t channels_ = 0, width_ = 0;
  bool has_bias_ = false;
  Parameter projection_, weight_, bias_;
};

/// silu(conv(x)) without the projection; otherwise as ConvStream::forward, with `history` as the state's part.
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    const std::string& history, int64_t head_size, const MixerContext& context);

}  // namespace dp
