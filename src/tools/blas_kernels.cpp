#include "tools/blas_kernels.h"

#ifdef DP_HAS_OPENBLAS
#include <cblas.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace dp::cli {
namespace {

constexpr const char* kVariable = "OPENBLAS_CORETYPE";

CpuFeatures this_cpu() {
  CpuFeatures cpu;
#if defined(__x86_64__)
  __builtin_cpu_init();
  cpu.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  cpu.avx512 = cpu.avx2 && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl");
#endif
  return cpu;
}

}  // namespace

std::string better_blas_kernels(const std::string& chosen, const CpuFeatures& cpu) {
  constexpr std::array<std::string_view, 6> kOld = {"Prescott",   "Core2",   "Penryn",
                                                    "Dunnington", "Nehalem", "Sandybridge"};
  if (!cpu.avx2 || std::ranges::find(kOld, chosen) == kOld.end()) return "";
  return cpu.avx512 ? "SkylakeX" : "Haswell";
}

void restart_with_better_blas_kernels(char** argv) {
  if (std::getenv(kVariable) != nullptr) return;
  const std::string better = better_blas_kernels(blas_kernels(), this_cpu());
  if (better.empty()) return;
  setenv(kVariable, better.c_str(), 0);
  execv("/proc/self/exe", argv);
  // It could not be started again: slow, but right.
}

#ifdef DP_HAS_OPENBLAS
std::string blas_kernels() { return openblas_get_corename(); }
void set_blas_threads(int threads) { openblas_set_num_threads(threads); }
#else
std::string blas_kernels() { return ""; }
void set_blas_threads(int) {}
#endif

}  // namespace dp::cli
