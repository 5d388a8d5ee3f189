// Which of its kernels OpenBLAS runs.
#pragma once
#include <string>

namespace dp::cli {

struct CpuFeatures {
  bool avx2 = false, avx512 = false;
};

/// The name of the kernels that a CPU with these features should have, if `chosen` are older than those
/// and so run at a fraction of its speed; empty if they are not.
std::string better_blas_kernels(const std::string& chosen, const CpuFeatures& cpu);

/// OpenBLAS chooses by the CPU's model number when it is loaded, and takes its oldest kernels for a model
/// newer than itself: sgemm then runs at a fifth of its speed (OpenBLAS 0.3.21 on Emerald Rapids). Only
/// the environment can say otherwise, so this starts the program anew with OPENBLAS_CORETYPE set, unless
/// it is set already. Call it first in main.
void restart_with_better_blas_kernels(char** argv);

/// The kernels that run now, in OpenBLAS's words. Empty if libtorch has a BLAS of its own.
std::string blas_kernels();

void set_blas_threads(int threads);

}  // namespace dp::cli
