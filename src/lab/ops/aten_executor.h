// Runs the kernels' tasks on torch's own threads: a second pool would compete for the same cores.
#pragma once
#include "base/executor.h"

namespace dp {

/// at::get_num_threads() threads; serial inside a parallel region of torch, and in a process made by fork().
class AtenExecutor final : public Executor {
 public:
  int num_threads() const override;
  void run(size_t num_tasks, TaskRef task) override;
};

}  // namespace dp
