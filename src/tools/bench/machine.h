// Limits of this machine, which benchmarks compare with.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>

#include "base/executor.h"

namespace dp::cli {

std::string cpu_name();

/// The word after a figure that has a target.
inline const char* verdict(bool reached) { return reached ? "ok" : "missed"; }

/// The best of several timings: on a shared machine noise only ever adds time.
class BestTime {
 public:
  /// Times `calls` calls of work(), one after the other.
  void time(const std::function<void()>& work, size_t calls = 1);
  double seconds() const { return seconds_; }  // of one call

 private:
  double seconds_ = std::numeric_limits<double>::infinity();
};

/// The limit for one decoding step: values *= factor, one task for each of `parts` equal parts.
void scale_in_place(float* values, size_t size, size_t parts, float factor, Executor& executor);

/// The limit for decoding a large model: one pass over `words` by all threads, each in so many streams (1, 2, 4 or 8).
/// Returns bytes per second.
double read_memory(std::span<const uint64_t> words, size_t streams, Executor& executor);

}  // namespace dp::cli
