#include "ops/aten_executor.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace dp {
namespace {

class AtenExecutorTest : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(2); }
  void TearDown() override { at::set_num_threads(threads_before_); }
  const int threads_before_ = at::get_num_threads();
  AtenExecutor executor_;
};

TEST_F(AtenExecutorTest, RunsEachTaskOnce) {
  EXPECT_EQ(executor_.num_threads(), 2);
  for (const size_t num_tasks : {0, 1, 3, 1000}) {
    std::vector<std::atomic<int>> runs(num_tasks);
    executor_.run(num_tasks, [&](size_t i) { ++runs[i]; });
    for (size_t i = 0; i < num_tasks; ++i)
      EXPECT_EQ(runs[i], 1) << "task " << i << " of " << num_tasks;
  }
}

// Two tasks that wait for each other end only if both threads work.
TEST_F(AtenExecutorTest, UsesTorchThreads) {
  std::atomic<int> arrived = 0;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  executor_.run(2, [&](size_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 2u);
}

TEST_F(AtenExecutorTest, RethrowsAfterAllTasksEnded) {
  std::atomic<int> ended = 0;
  const auto task = [&](size_t i) {
    ++ended;
    if (i % 3 == 0) throw std::runtime_error("task");
  };
  EXPECT_THROW(executor_.run(8, task), std::runtime_error);
  EXPECT_EQ(ended, 8);
}

// GNU OpenMP would wait forever for the threads of the process before.
TEST_F(AtenExecutorTest, RunsInAForkedProcess) {
  executor_.run(100, [](size_t) {});  // starts the threads
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // ends a child that waits
    std::atomic<int> runs = 0;
    executor_.run(100, [&](size_t) { ++runs; });
    _exit(runs == 100 && executor_.num_threads() == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(AtenExecutorTest, SerialInsideAParallelRegion) {
  std::atomic<int> runs = 0;
  at::parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    AtenExecutor inner;
    inner.run(5, [&](size_t) { ++runs; });
  });
  EXPECT_GE(runs, 5);
}

}  // namespace
}  // namespace dp
