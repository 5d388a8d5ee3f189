// Cache-line-aligned working memory of one thread, carved into arrays.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace dp {

class Scratch {
 public:
  explicit Scratch(size_t floats)
      : memory_(
            static_cast<float*>(std::aligned_alloc(kAlignment, rounded(floats) * sizeof(float)))),
        next_(memory_.get()),
        end_(next_ + rounded(floats)) {
    if (!memory_) throw std::bad_alloc();
  }

  /// An uninitialised array that starts on a cache line.
  float* take(size_t floats) {
    float* array = next_;
    next_ += rounded(floats);
    if (next_ > end_) throw std::bad_alloc();
    return array;
  }

  /// How much take(floats) uses up: sizes given to the constructor are sums of these.
  static constexpr size_t rounded(size_t floats) { return (floats + kLine - 1) / kLine * kLine; }

 private:
  static constexpr size_t kAlignment = 64, kLine = kAlignment / sizeof(float);
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> memory_;
  float *next_, *end_;
};

}  // namespace dp
