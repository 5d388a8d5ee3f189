// How the learning rate moves over a run.
#pragma once
#include <cstdint>

namespace dp {

/// Linear warm-up to the peak, then half a cosine down to the minimum at the last step.
struct Schedule {
  double peak = 1e-3, minimum = 0;
  int64_t warmup_steps = 50, total_steps = 1000;

  /// The learning rate of a step, counted from 0; beyond the last step, the minimum.
  double learning_rate(int64_t step) const;
};

}  // namespace dp
