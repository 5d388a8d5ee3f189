#include "base/executor.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace dp {

struct ThreadPool::Shared {
  std::mutex mutex;
  std::condition_variable work_arrived, work_done;
  // One batch of tasks at a time; all of these are guarded by `mutex`.
  const std::function<void(size_t)>* task = nullptr;
  size_t num_tasks = 0, next = 0, unfinished = 0;
  std::exception_ptr error;
  bool stopping = false;
  std::vector<std::thread> threads;

  // Takes tasks of the current batch until none is left. Called and returns with `lock` held.
  void drain(std::unique_lock<std::mutex>& lock) {
    while (next < num_tasks) {
      const size_t i = next++;
      const auto& run_task = *task;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        run_task(i);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      if (thrown && !error) error = thrown;
      if (--unfinished == 0) work_done.notify_all();
    }
  }

  void worker() {
    std::unique_lock lock(mutex);
    while (true) {
      work_arrived.wait(lock, [&] { return stopping || next < num_tasks; });
      if (stopping) return;
      drain(lock);
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : shared_(std::make_unique<Shared>()) {
  if (num_threads < 1) throw std::invalid_argument("ThreadPool: num_threads must be at least 1");
  for (int i = 1; i < num_threads; ++i)
    shared_->threads.emplace_back([shared = shared_.get()] { shared->worker(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
  }
  shared_->work_arrived.notify_all();
  for (std::thread& thread : shared_->threads) thread.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(shared_->threads.size()) + 1; }

void ThreadPool::run(size_t num_tasks, const std::function<void(size_t)>& task) {
  if (num_tasks == 0) return;
  std::unique_lock lock(shared_->mutex);
  shared_->task = &task;
  shared_->num_tasks = shared_->unfinished = num_tasks;
  shared_->next = 0;
  shared_->error = nullptr;
  shared_->work_arrived.notify_all();
  shared_->drain(lock);
  shared_->work_done.wait(lock, [&] { return shared_->unfinished == 0; });
  shared_->num_tasks = shared_->next = 0;
  if (std::exception_ptr error = std::exchange(shared_->error, nullptr))
    std::rethrow_exception(error);
}

}  // namespace dp
