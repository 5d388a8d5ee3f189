#include "base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace dp {
namespace {

TEST(ThreadPool, RunsEachTaskOnce) {
  ThreadPool pool(4);
  EXPECT_EQ(pool.num_threads(), 4);
  for (const size_t num_tasks : {0, 1, 3, 100}) {
    std::vector<std::atomic<int>> runs(num_tasks);
    pool.run(num_tasks, [&](size_t i) { ++runs[i]; });
    for (size_t i = 0; i < num_tasks; ++i)
      EXPECT_EQ(runs[i], 1) << "task " << i << " of " << num_tasks;
  }
}

TEST(ThreadPool, RethrowsAfterAllTasksEnded) {
  ThreadPool pool(2);
  std::atomic<int> ended = 0;
  const auto task = [&](size_t i) {
    ++ended;
    if (i == 3) throw std::runtime_error("task 3");
  };
  EXPECT_THROW(pool.run(8, task), std::runtime_error);
  EXPECT_EQ(ended, 8);
  ended = 0;
  pool.run(2, task);  // the pool is usable again and the old error is gone
  EXPECT_EQ(ended, 2);
}

TEST(ThreadPool, RejectsNoThreads) { EXPECT_THROW(ThreadPool(0), std::invalid_argument); }

}  // namespace
}  // namespace dp
