#include "nn/conv_stream.h"

#include <ATen/ATen.h>

#include "ops/linear.h"
#include "ops/short_conv.h"

namespace dp {

ConvStream::ConvStream(const ModelConfig& config, char letter, int64_t channels, int64_t stacked)
    : letter_(1, letter),
      channels_(channels),
      width_(config.use_short_conv ? config.conv_size : 0),
      has_bias_(config.conv_bias) {
  projection_ = Parameter::matrix({channels, config.hidden_size}, Init::kMixerProjection, stacked);
  weight_ = Parameter::matrix({channels, 1, width_}, Init::kMixerConv);
  bias_ = Parameter::vector({channels}, Init::kZeros);
}

at::Tensor ConvStream::project(const at::Tensor& x) const {
  return dp::linear(x, projection_.value);
}

at::Tensor ConvStream::forward(const at::Tensor& x, int64_t head_size,
                               const MixerContext& context) const {
  if (has_conv())
    return convolve(project(x), weight_.value, bias_.value, "conv_" + letter_, head_size, context);
  ShortConvOptions options;
  options.cu_seqlens = context.cu_seqlens;
  options.head_size = head_size;
  return short_conv(project(x), options);
}

void ConvStream::add_state(StateShapes& shapes) const {
  if (has_conv()) shapes["conv_" + letter_] = {width_, channels_};
}

void ConvStream::list_projection(const std::string& prefix, NamedParameters& list) {
  list.push_back({prefix + letter_ + "_proj.weight", &projection_});
}

void ConvStream::list_conv(const std::string& prefix, NamedParameters& list) {
  if (!has_conv()) return;
  list.push_back({prefix + letter_ + "_conv1d.weight", &weight_});
  if (has_bias_) list.push_back({prefix + letter_ + "_conv1d.bias", &bias_});
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    const std::string& history, int64_t head_size, const MixerContext& context) {
  ShortConvOptions options;
  options.cu_seqlens = context.cu_seqlens;
  options.head_size = head_size;
  options.weight = weight.squeeze(1);
  if (bias.defined()) options.bias = bias;
  if (context.state == nullptr) return short_conv(x, options);
  options.history = context.find(history);
  at::Tensor y = short_conv(x, options);
  context.keep(history, conv_history(x, weight.size(2), options.history, context.cu_seqlens));
  return y;
}

}  // namespace dp
