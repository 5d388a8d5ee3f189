#include "base/executor.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dp {
namespace {

constexpr int kSpins = 1000;  // of 40 to 140 cycles each

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

struct ThreadPool::Shared {
  static constexpr size_t kLine = 64;
  // Tasks [next, end).
  struct alignas(kLine) Range {
    std::atomic<size_t> next = 0;
    size_t end = 0;
  };

  explicit Shared(int num_threads) : ranges(static_cast<size_t>(num_threads)) {}

  // One batch of tasks at a time. `batch` and `ranges` change only when it is closed and nobody takes tasks of it.
  std::optional<TaskRef> batch;
  std::vector<Range> ranges;  // one per thread, the caller's first
  // Waiting threads watch this: the number of batches so far, and of the end.
  alignas(kLine) std::atomic<int> openings = 0;
  // Threads, beside the caller, that take tasks; and kOpen, without which those that come late leave again.
  static constexpr int kOpen = 1 << 30;
  alignas(kLine) std::atomic<int> working = 0;
  // Threads pass the two counters without a lock. Who has waited too long sleeps, says so first, and looks at the counter
  // again; who changes a counter looks for sleepers afterwards. So one of the two sees the other.
  alignas(kLine) std::atomic<int> sleeping = 0;
  std::atomic<bool> caller_sleeps = false, stopping = false, failed = false;
  std::mutex mutex;  // for sleeping, and of `error`
  std::condition_variable batch_opened, workers_left;
  std::exception_ptr error;
  int spins = 0;
  std::vector<std::thread> threads;

  // Every thread has its share of the tasks, in their order.
  void share_out(size_t num_tasks) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      ranges[i].next.store(num_tasks * i / ranges.size(), std::memory_order_relaxed);
      ranges[i].end = num_tasks * (i + 1) / ranges.size();
    }
  }

  // Takes tasks until none is left: of the thread's own share first, then of the others'.
  void drain(size_t thread, TaskRef task) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      Range& range = ranges[(thread + i) % ranges.size()];
      if (range.next.load(std::memory_order_relaxed) >= range.end) continue;
      for (size_t n = range.next.fetch_add(1); n < range.end; n = range.next.fetch_add(1)) {
        try {
          task(n);
        } catch (...) {
          std::lock_guard lock(mutex);
          if (!error) error = std::current_exception();
          failed = true;
        }
      }
    }
  }

  void worker(size_t thread) {
    int seen = 0;
    while (true) {
      for (int i = 0; i < spins && openings.load(std::memory_order_relaxed) == seen; ++i)
        pause_briefly();
      if (openings.load() == seen) {
        std::unique_lock lock(mutex);
        ++sleeping;
        batch_opened.wait(lock, [&] { return openings.load() != seen; });
        --sleeping;
      }
      seen = openings.load();
      if (stopping) return;
      if ((working.fetch_add(1) & kOpen) != 0) drain(thread, *batch);
      if (working.fetch_sub(1) > 1 || !caller_sleeps) continue;
      const std::lock_guard lock(mutex);
      workers_left.notify_one();
    }
  }

  // Wakes as many threads as there is work for: to wake a thousand for two tasks would take longer than the tasks.
  void announce(size_t wanted) {
    ++openings;
    if (sleeping.load() == 0) return;
    const std::lock_guard lock(mutex);
    if (wanted >= threads.size()) return batch_opened.notify_all();
    for (size_t i = 0; i < wanted; ++i) batch_opened.notify_one();
  }

  void wait_for_workers() {
    for (int i = 0; i < spins && working.load(std::memory_order_relaxed) != 0; ++i) pause_briefly();
    if (working.load() == 0) return;
    std::unique_lock lock(mutex);
    caller_sleeps = true;
    workers_left.wait(lock, [&] { return working.load() == 0; });
    caller_sleeps = false;
  }
};

ThreadPool::ThreadPool(int num_threads) {
  if (num_threads < 1) throw std::invalid_argument("ThreadPool: num_threads must be at least 1");
  shared_ = std::make_unique<Shared>(num_threads);
  // With more threads than cores, one that spins keeps another from working.
  if (num_threads <= static_cast<int>(std::thread::hardware_concurrency())) shared_->spins = kSpins;
  for (int i = 1; i < num_threads; ++i)
    shared_->threads.emplace_back(
        [shared = shared_.get(), i] { shared->worker(static_cast<size_t>(i)); });
}

ThreadPool::~ThreadPool() {
  shared_->stopping = true;
  shared_->announce(shared_->threads.size());
  for (std::thread& thread : shared_->threads) thread.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(shared_->threads.size()) + 1; }

void ThreadPool::run(size_t num_tasks, TaskRef task) {
  Shared& shared = *shared_;
  if (num_tasks == 0) return;
  shared.share_out(num_tasks);
  if (num_tasks > 1 && !shared.threads.empty()) {
    shared.batch = task;
    shared.working |= Shared::kOpen;
    shared.announce(num_tasks - 1);
  }
  shared.drain(0, task);
  shared.working &= ~Shared::kOpen;
  shared.wait_for_workers();
  if (!shared.failed) return;
  const std::lock_guard lock(shared.mutex);
  shared.failed = false;
  std::rethrow_exception(std::exchange(shared.error, nullptr));
}

}  // namespace dp
