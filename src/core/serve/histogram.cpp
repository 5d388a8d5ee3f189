#include "serve/histogram.h"

#include <cstdio>

namespace dp::serve {

std::string Histogram::text(const std::string& name, const std::string& help) const {
  const std::scoped_lock lock(mutex_);
  std::string text = "# HELP " + name + " " + help + "\n# TYPE " + name + " histogram\n";
  int64_t count = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    char bound[32] = "+Inf";
    if (i < bounds_.size()) std::snprintf(bound, sizeof bound, "%g", bounds_[i]);
    count += counts_[i];
    text += name + "_bucket{le=\"" + bound + "\"} " + std::to_string(count) + "\n";
  }
  char sum[32];
  std::snprintf(sum, sizeof sum, "%.9g", sum_);
  return text + name + "_sum " + sum + "\n" + name + "_count " + std::to_string(count) + "\n";
}

}  // namespace dp::serve
