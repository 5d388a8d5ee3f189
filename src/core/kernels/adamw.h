// AdamW (Adam with decoupled weight decay), as torch.optim.AdamW defines it: one pass over each
// parameter, its gradient and its two moments.
#pragma once
#include <cstddef>
#include <vector>

#include "base/executor.h"

namespace dp {

/// One parameter tensor at one step, with g = gradient_scale gradient and t = number of this step, from 1:
///   p *= 1 - learning_rate weight_decay
///   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
///   p -= learning_rate m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
struct AdamWParameter {
  size_t size = 0;
  const float* gradient = nullptr;
  float* p = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  double weight_decay = 0;
  long long step = 1;  // t
};

struct AdamWSettings {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, gradient_scale = 1;
};

/// Updates p, m and v of every parameter. v stays finite for finite gradients, however large.
void adamw_step(const std::vector<AdamWParameter>& parameters, const AdamWSettings& settings,
                Executor& executor);

struct ConstArray {
  const float* data = nullptr;
  size_t size = 0;
};

/// The sum of squares over all arrays, in double precision and in an order that depends on the sizes
/// alone.
double sum_of_squares(const std::vector<ConstArray>& arrays, Executor& executor);

}  // namespace dp
