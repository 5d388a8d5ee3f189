// One token of the short convolution for each of several sequences: what decoding does.
#pragma once
#include <cstddef>

namespace dp {

struct ShortConvStep {
  size_t C = 1;                 // channels
  size_t W = 0;                 // taps; 0 without a convolution
  size_t head_size = 0;         // channels of a head, a divisor of C; 0 without a norm
  const float* taps = nullptr;  // [W,C], the current token's last
  const float* bias = nullptr;  // [C], or null for zeros
};

/// As short_conv_forward for a sequence of one token: x [C] -> y [C], where y may be x. history [W,C], oldest first,
/// loses its oldest row and gets x; null without a convolution.
void short_conv_step(const ShortConvStep& conv, const float* x, float* history, float* y);

}  // namespace dp
