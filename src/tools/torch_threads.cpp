#include <ATen/Parallel.h>

#include "tools/blas_kernels.h"
#include "tools/command.h"

namespace dp::cli {

int ThreadsOption::apply() const {
  const int threads = count();
  at::set_num_threads(threads);
  set_blas_threads(threads);
  return threads;
}

}  // namespace dp::cli
