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

  std::mutex mutex;
  std::condition_variable batch_opened, workers_left;
  // One batch of tasks at a time. `batch`, `working`, `error` and `stopping` are guarded by `mutex`.
  std::optional<TaskRef> batch;  // none: closed to workers that come late
  int working = 0;               // threads, beside the caller, that take tasks of the batch
  std::exception_ptr error;
  bool stopping = false;
  std::vector<Range>
      ranges;  // one per thread, the caller's first; begin anew only when no thread is working
  alignas(kLine) std::atomic<int> openings =
      0;  // of batches so far, and of the end: what waiting threads watch
  alignas(kLine) std::atomic<int> left =
      0;  // how often `working` fell to 0: what the caller watches
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
        }
      }
    }
  }

  void worker(size_t thread) {
    int seen = 0;
    while (true) {
      for (int i = 0; i < spins && openings.load(std::memory_order_relaxed) == seen; ++i)
        pause_briefly();
      std::unique_lock lock(mutex);
      batch_opened.wait(lock, [&] { return openings.load() != seen; });
      seen = openings.load();
      if (stopping) return;
      if (!batch) continue;
      const TaskRef task = *batch;
      ++working;
      lock.unlock();
      drain(thread, task);
      lock.lock();
      if (--working > 0) continue;
      ++left;
      workers_left.notify_one();
    }
  }

  // As many threads as there is work for: to wake a thousand for two tasks would take longer than the tasks.
  void open(size_t wanted) {
    ++openings;
    if (wanted >= threads.size()) return batch_opened.notify_all();
    for (size_t i = 0; i < wanted; ++i) batch_opened.notify_one();
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
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    shared_->open(shared_->threads.size());
  }
  for (std::thread& thread : shared_->threads) thread.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(shared_->threads.size()) + 1; }

void ThreadPool::run(size_t num_tasks, TaskRef task) {
  Shared& shared = *shared_;
  if (num_tasks == 0) return;
  {
    std::lock_guard lock(shared.mutex);
    shared.share_out(num_tasks);
    if (num_tasks > 1) {
      shared.batch = task;
      shared.open(num_tasks - 1);
    }
  }
  shared.drain(0, task);
  std::unique_lock lock(shared.mutex);
  shared.batch.reset();
  if (shared.working > 0) {
    const int left = shared.left.load();
    lock.unlock();
    for (int i = 0; i < shared.spins && shared.left.load(std::memory_order_relaxed) == left; ++i)
      pause_briefly();
    lock.lock();
    shared.workers_left.wait(lock, [&] { return shared.working == 0; });
  }
  if (std::exception_ptr error = std::exchange(shared.error, nullptr))
    std::rethrow_exception(error);
}

}  // namespace dp
