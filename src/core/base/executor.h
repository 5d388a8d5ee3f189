// How a kernel spreads independent tasks over threads without knowing whose threads they are: torch's
// pool when it runs under torch (two pools on the same cores would fight), ours otherwise.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

namespace dp {

class Executor {
 public:
  virtual ~Executor() = default;
  /// How many tasks can make progress at once. Results never depend on it; the split of work may.
  virtual int num_threads() const = 0;
  /// Calls task(0) ... task(num_tasks - 1), each exactly once, in any order, and returns when all are
  /// done. The first exception a task throws is rethrown here, after the others have ended.
  virtual void run(size_t num_tasks, const std::function<void(size_t)>& task) = 0;
};

/// Runs every task on the calling thread.
class SerialExecutor final : public Executor {
 public:
  int num_threads() const override { return 1; }
  void run(size_t num_tasks, const std::function<void(size_t)>& task) override {
    for (size_t i = 0; i < num_tasks; ++i) task(i);
  }
};

/// A fixed set of threads; the caller's thread works too. run() may be called from one thread at a time.
class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(int num_threads);
  ~ThreadPool() override;
  int num_threads() const override;
  void run(size_t num_tasks, const std::function<void(size_t)>& task) override;

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace dp
