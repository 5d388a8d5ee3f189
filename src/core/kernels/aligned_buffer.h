// Memory on a cache line that grows and never shrinks.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace dp {

class AlignedBuffer {
 public:
  /// At least so many floats; what was there before is lost when they are more than ever before.
  float* floats(size_t count) {
    if (count > size_) {
      memory_.reset();
      size_ = 0;
      const size_t bytes = (count * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
      memory_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
      if (!memory_) throw std::bad_alloc();
      size_ = count;
    }
    return memory_.get();
  }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> memory_;
  size_t size_ = 0;
};

}  // namespace dp
