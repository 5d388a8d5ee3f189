#include "ops/aten_executor.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#ifndef _OPENMP
#error "Without -fopenmp at::parallel_for would be serial."
#endif

namespace dp {

int AtenExecutor::num_threads() const {
  return at::in_parallel_region() ? 1 : at::get_num_threads();
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
  at::parallel_for(0, static_cast<int64_t>(shares), /*grain_size=*/1, take_tasks);
  if (error) std::rethrow_exception(error);
}

}  // namespace dp
