// Counts of durations by size, for Prometheus.
#pragma once
#include <mutex>
#include <string>
#include <vector>

namespace dp::serve {

/// Callable from several threads at once.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void add(double value) {
    const std::scoped_lock lock(mutex_);
    size_t i = 0;
    while (i < bounds_.size() && value > bounds_[i]) ++i;
    ++counts_[i];
    sum_ += value;
  }
  /// The lines of `name` in Prometheus's text format.
  std::string text(const std::string& name, const std::string& help) const;

 private:
  const std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::vector<int64_t> counts_;  // of values up to each bound, and of those beyond
  double sum_ = 0;
};

}  // namespace dp::serve
