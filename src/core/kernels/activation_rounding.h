// Activations that meet int8 or int4 weights: whole numbers of 16 bits times a power of two for each group of
// kWeightGroup inputs. So products with a group of weights are exact sums of whole numbers, half the work of widening
// each weight to float32. What is lost is at most 2^-15 of the group's largest activation, a hundredth of what int8
// weights have lost.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/weight_matrix.h"

namespace dp {

/// The scale of a group whose largest magnitude has these bits: the largest activation becomes 2^14 to 2^15. 0 for a
/// group below 2^-112, which counts as zeros; NaN if the group holds an infinity or NaN.
inline float activation_scale(uint32_t largest_bits) {
  const uint32_t exponent = largest_bits >> 23;
  if (exponent >= 255) return std::numeric_limits<float>::quiet_NaN();
  return exponent < 15 ? 0 : std::bit_cast<float>((exponent - 14) << 23);
}

/// One group, `count` <= kWeightGroup numbers; values has kWeightGroup elements, of which the rest becomes 0. Returns the
/// scale. The definition: those of linear_kernels.h do the same with SIMD.
inline float round_group(const float* x, size_t count, int16_t* values) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffff);
  const float scale = activation_scale(largest);
  const bool usable = scale > 0;
  for (size_t i = 0; i < kWeightGroup; ++i)
    values[i] = static_cast<int16_t>(
        usable && i < count ? std::min(std::nearbyint(x[i] / scale), 32767.0f) : 0.0f);
  return scale;
}

}  // namespace dp
