// OpenBLAS's product of two square matrices: the limit for arithmetic.
#pragma once
#include <vector>

#include "tools/bench/machine.h"

namespace dp::cli {

/// With OpenBLAS's number of threads.
class Sgemm {
 public:
  Sgemm();
  void time();  // once, after a first call that does not count
  double gflops() const;

 private:
  void multiply();
  std::vector<float> a_, b_, c_;
  BestTime best_;
};

}  // namespace dp::cli
