#include "ops/aten_executor.h"

#include <ATen/Parallel.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#ifndef _OPENMP
#error "Without -fopenmp at::parallel_for would be serial."
#endif

namespace dp {
namespace {

// A forked process has one thread, and GNU OpenMP waits forever for those that it had started before. Results do not depend
// on the number of threads.
std::atomic<bool> is_forked = false;
[[maybe_unused]] const int kForkHandler =
    pthread_atfork(nullptr, nullptr, [] { is_forked = true; });

}  // namespace

int AtenExecutor::num_threads() const {
  return is_forked || at::in_parallel_region() ? 1 : at::get_num_threads();
}

void AtenExecutor::run(size_t num_tasks, TaskRef task) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;  // the first; the other tasks still run
  // One share per thread, which takes tasks as it gets free: tasks may differ much in length.
  const auto take_tasks = [&](int64_t, int64_t) {
    for (size_t i = next++; i < num_tasks; i = next++) {
      try {
        task(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  };
  const size_t shares = std::min<size_t>(num_tasks, std::max(1, num_threads()));
  // parallel_for calls a single share directly, without OpenMP.
  at::parallel_for(0, static_cast<int64_t>(shares), /*grain_size=*/1, take_tasks);
  if (error) std::rethrow_exception(error);
}

}  // namespace dp
