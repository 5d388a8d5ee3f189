#include "base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
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

// So that what a task leaves in a core's caches is there when the task of the same number comes again.
TEST(ThreadPool, EachThreadBeginsWithItsOwnShare) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> begun = 0;
    std::mutex mutex;
    std::map<std::thread::id, size_t> first;
    pool.run(100, [&](size_t i) {
      {
        const std::scoped_lock lock(mutex);
        if (!first.emplace(std::this_thread::get_id(), i).second) return;
      }
      ++begun;
      while (begun < 2)
        std::this_thread::yield();  // the other one must not take this thread's share
    });
    ASSERT_EQ(first.size(), 2);
    for (const auto& [thread, task] : first)
      EXPECT_EQ(task, thread == std::this_thread::get_id() ? 0 : 50);
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
