// Means over seeds and shares of trials, with 95 % confidence intervals.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace dp {

struct Interval {
  double low = 0, high = 0;
};

struct SeedStatistics {
  int64_t count = 0;
  double mean = 0;
  /// The sample's standard deviation, with n - 1, and Student's t interval of the mean; both need two values.
  std::optional<double> deviation;
  std::optional<Interval> interval;
};

/// `values`, at least one, come from runs that differ in nothing but their seed. The interval is cut to [least, most].
SeedStatistics seed_statistics(std::span<const double> values, double least, double most);

/// The 95 % interval of the mean of `values`, at least one, by a percentile bootstrap of 10,000 resamples with a fixed seed. For a paired
/// comparison, pass the differences of the pairs.
Interval bootstrap_interval(std::span<const double> values);

/// Wilson's interval of a share that was measured on `trials` independent trials, at least one.
Interval share_interval(double share, int64_t trials);

}  // namespace dp
