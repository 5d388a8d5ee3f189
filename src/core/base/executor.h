// How a kernel spreads independent tasks over threads without knowing whose threads they are: torch's
// pool when it runs under torch (two pools on the same cores would fight), ours otherwise.
#pragma once
#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace dp {

/// A reference to something that is called with the number of a task. What it refers to must outlive it; unlike
/// a std::function it never allocates.
class TaskRef {
 public:
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, TaskRef> && std::invocable<F&, size_t>)
      TaskRef(F&& task)  // implicit: calls take lambdas
      : task_(const_cast<void*>(static_cast<const void*>(std::addressof(task)))),
        call_([](void* object, size_t i) {
          (*static_cast<std::remove_reference_t<F>*>(object))(i);
        }) {}
  void operator()(size_t i) const { call_(task_, i); }

 private:
  void* task_;
  void (*call_)(void*, size_t);
};

class Executor {
 public:
  virtual ~Executor() = default;
  /// How many tasks can make progress at once. Results never depend on it; the split of work may.
  virtual int num_threads() const = 0;
  /// Calls task(0) ... task(num_tasks - 1), each exactly once, in any order, and returns when all are
  /// done. The first exception a task throws is rethrown here, after the others have ended.
  virtual void run(size_t num_tasks, TaskRef task) = 0;
};

/// Runs every task on the calling thread.
class SerialExecutor final : public Executor {
 public:
  int num_threads() const override { return 1; }
  void run(size_t num_tasks, TaskRef task) override {
    for (size_t i = 0; i < num_tasks; ++i) task(i);
  }
};

/// A fixed set of threads; the caller's thread works too. run() may be called from one thread at a time. Tasks are shared
/// out in their order, and a thread that has done its share helps the others: calls with the same number of tasks find
/// in a core's caches what the tasks of the same numbers left there. Between calls the threads wait for some 50 us before they sleep: waking one takes as long as a small product of matrices.
class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(int num_threads);
  ~ThreadPool() override;
  int num_threads() const override;
  void run(size_t num_tasks, TaskRef task) override;

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace dp
