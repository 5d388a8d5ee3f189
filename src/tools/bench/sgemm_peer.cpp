#include "tools/bench/sgemm_peer.h"

#include <dlfcn.h>

#include <cstdlib>

namespace dp::cli {
namespace {

using Cblas = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                       const float* a, int lda, const float* b, int ldb, float beta, float* c,
                       int ldc);

void* open_openblas() {
#if defined(__x86_64__)
  // Read when the library is loaded.
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  else if (__builtin_cpu_supports("avx2"))
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
#endif
  return dlopen("libopenblas.so.0", RTLD_NOW);
}

}  // namespace

SgemmFunction find_sgemm(int threads) {
  static void* const library = open_openblas();
  if (library == nullptr) return {};
  const auto sgemm = reinterpret_cast<Cblas>(dlsym(library, "cblas_sgemm"));
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (sgemm == nullptr || set == nullptr) return {};
  set(threads);
  return [sgemm](const float* x, size_t M, size_t I, const float* w, size_t O, float* y) {
    constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
    const auto m = static_cast<int>(M), o = static_cast<int>(O), i = static_cast<int>(I);
    sgemm(kRowMajor, kNoTrans, kTrans, m, o, i, 1, x, i, w, i, 0, y, o);
  };
}

}  // namespace dp::cli
