// What keeps a server's memory within a bound: requests reserve what they may take, and few are parsed at a time.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <semaphore>
#include <utility>

namespace dp::serve {

/// Bytes that requests under way may take together.
class MemoryPool {
 public:
  explicit MemoryPool(int64_t bytes) : left_(bytes) {}

  /// Gives its bytes back when it goes.
  class Share {
   public:
    Share() = default;
    Share(MemoryPool& pool, int64_t bytes) : pool_(&pool), bytes_(bytes) {}
    Share(Share&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), bytes_(other.bytes_) {}
    Share& operator=(Share&&) = delete;
    ~Share() {
      if (pool_) pool_->left_ += bytes_;
    }
    /// Whether there was room.
    explicit operator bool() const { return pool_ != nullptr; }

   private:
    MemoryPool* pool_ = nullptr;
    int64_t bytes_ = 0;
  };

  Share take(int64_t bytes) {
    int64_t left = left_;
    do
      if (bytes > left) return {};
    while (!left_.compare_exchange_weak(left, left - bytes));
    return {*this, bytes};
  }

 private:
  std::atomic<int64_t> left_;
};

/// A JSON value takes up to this many times the memory of its text: "[{},{},...]".
inline constexpr int64_t kParsedBytesPerByte = 64;
/// Bodies up to this size are parsed at once; of larger ones kMostParsers at a time, so that many large ones neither take
/// all memory nor all cores.
inline constexpr size_t kSmallRequest = 16 << 10;
inline constexpr int kMostParsers = 2;

/// A turn at parsing a large body.
class ParserTurn {
 public:
  using Slots = std::counting_semaphore<kMostParsers>;
  /// Waits until there is one, it is too late, or `stops` says so.
  template <class Stops>
  ParserTurn(Slots& slots, std::chrono::steady_clock::time_point deadline, Stops stops)
      : slots_(slots) {
    constexpr std::chrono::milliseconds kPatience{100};
    while (!(held_ = slots.try_acquire_for(kPatience)))
      if (stops() || std::chrono::steady_clock::now() >= deadline) return;
  }
  ~ParserTurn() {
    if (held_) slots_.release();
  }
  ParserTurn(const ParserTurn&) = delete;
  ParserTurn& operator=(const ParserTurn&) = delete;
  bool held() const { return held_; }

 private:
  Slots& slots_;
  bool held_ = false;
};

}  // namespace dp::serve
