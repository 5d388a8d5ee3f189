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
  std::mutex mutex;
  std::condition_variable batch_opened, workers_left;
  // One batch of tasks at a time. `batch`, `working`, `error` and `stopping` are guarded by `mutex`.
  std::optional<TaskRef> batch;  // none: closed to workers that come late
  int working = 0;               // threads, beside the caller, that take tasks of the batch
  std::exception_ptr error;
  bool stopping = false;
  size_t num_tasks = 0;           // changes only when no thread is working
  std::atomic<size_t> next = 0;   // task to take
  std::atomic<int> openings = 0;  // of batches so far, and of the end: what waiting threads watch
  std::atomic<int> left = 0;      // how often `working` fell to 0: what the caller watches
  int spins = 0;
  std::vector<std::thread> threads;

  // Takes tasks until none is left.
  void drain(TaskRef task) {
    for (size_t i = next.fetch_add(1); i < num_tasks; i = next.fetch_add(1)) {
      try {
        task(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  }

  void worker() {
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
      drain(task);
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

ThreadPool::ThreadPool(int num_threads) : shared_(std::make_unique<Shared>()) {
  if (num_threads < 1) throw std::invalid_argument("ThreadPool: num_threads must be at least 1");
  // With more threads than cores, one that spins keeps another from working.
  if (num_threads <= static_cast<int>(std::thread::hardware_concurrency())) shared_->spins = kSpins;
  for (int i = 1; i < num_threads; ++i)
    shared_->threads.emplace_back([shared = shared_.get()] { shared->worker(); });
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
    shared.num_tasks = num_tasks;
    shared.next = 0;
    if (num_tasks > 1) {
      shared.batch = task;
      shared.open(num_tasks - 1);
    }
  }
  shared.drain(task);
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
