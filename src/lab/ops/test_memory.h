// For tests: what torch allocates on this thread.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/version.h>

#include <algorithm>
#include <memory>

namespace dp {

class MemoryMeter final : public c10::MemoryReportingInfoBase {
 public:
#if TORCH_VERSION_MAJOR < 2
  using Total = int64_t;
#else
  using Total = size_t;
#endif
  void reportMemoryUsage(void*, int64_t size, Total, Total, c10::Device) override {
    live += size;
    peak = std::max(peak, live);
    if (size > 0) allocated += size;
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t live = 0, peak = 0, allocated = 0;
};

/// Measures while it lives.
class MeasureMemory {
 public:
  MemoryMeter& operator*() { return *meter_; }
  MemoryMeter* operator->() { return meter_.get(); }

 private:
  const std::shared_ptr<MemoryMeter> meter_ = std::make_shared<MemoryMeter>();
  const c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, meter_};
};

}  // namespace dp
