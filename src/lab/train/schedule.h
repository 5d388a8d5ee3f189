// How the learning rate moves over a run.
#pragma once
#include <cstdint>

namespace dp {

/// Linear warm-up to the peak, then half a cosine down to the minimum at the last step.
struct Schedule {
  double peak = 1e-3, minimum = 0;
  int64_t warmup_steps = 50, total_steps = 1000;

  /// Of step `step`, from 0 on; the minimum beyond the last.
  double learning_rate(int64_t step) const;
};

}  // namespace dp
