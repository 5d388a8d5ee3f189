#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dp {

double Schedule::learning_rate(int64_t step) const {
  if (step < warmup_steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  const auto rest = static_cast<double>(std::max<int64_t>(1, total_steps - warmup_steps));
  const double done = std::min(1.0, static_cast<double>(step - warmup_steps) / rest);
  return minimum + (peak - minimum) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace dp
