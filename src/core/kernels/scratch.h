// Working memory of one thread, aligned to cache lines and divided into arrays.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "kernels/sizes.h"

namespace dp {

inline constexpr size_t kLineFloats = 16;  // floats of a cache line

/// Hands out consecutive arrays, each of which starts on a cache line. Without memory it only measures.
class ScratchLayout {
 public:
  explicit ScratchLayout(float* memory = nullptr) : memory_(memory) {}

  /// An uninitialised array; null while measuring.
  float* take(size_t floats) {
    float* const array = memory_ == nullptr ? nullptr : memory_ + size_;
    size_ += round_up(floats, kLineFloats);
    return array;
  }
  size_t size() const { return size_; }

 private:
  float* memory_;
  size_t size_ = 0;
};

/// Uninitialised memory: one array, or as many as a layout function takes. That function runs twice, first to measure
/// the memory, then to divide it, so that no size is written down a second time:
///   float *a, *b;
///   const Scratch scratch([&](ScratchLayout& layout) { a = layout.take(n), b = layout.take(m); });
class Scratch {
 public:
  explicit Scratch(size_t floats)
      : memory_(static_cast<float*>(
            std::aligned_alloc(kLineFloats * sizeof(float),
                               round_up(floats == 0 ? 1 : floats, kLineFloats) * sizeof(float)))) {
    if (!memory_) throw std::bad_alloc();
  }

  template <std::invocable<ScratchLayout&> LayOut>
  explicit Scratch(const LayOut& lay_out) : Scratch(measure(lay_out)) {
    ScratchLayout layout(memory_.get());
    lay_out(layout);
  }

  float* data() const { return memory_.get(); }

 private:
  template <class LayOut>
  static size_t measure(const LayOut& lay_out) {
    ScratchLayout layout;
    lay_out(layout);
    return layout.size();
  }

  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> memory_;
};

}  // namespace dp
