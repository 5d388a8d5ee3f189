#include "tools/bench/sgemm.h"

#ifdef DP_HAS_OPENBLAS
#include <cblas.h>
#else
#include <ATen/ATen.h>
#endif

namespace dp::cli {
namespace {

constexpr int kSgemmSize = 2048;

}  // namespace

Sgemm::Sgemm() : a_(size_t{kSgemmSize} * kSgemmSize, 0.5f), b_(a_), c_(a_) { multiply(); }

void Sgemm::multiply() {
  constexpr int n = kSgemmSize;
#ifdef DP_HAS_OPENBLAS
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f, a_.data(), n, b_.data(), n,
              0.0f, c_.data(), n);
#else
  const auto matrix = [](std::vector<float>& x) { return at::from_blob(x.data(), {n, n}); };
  at::Tensor product = matrix(c_);
  at::mm_out(product, matrix(a_), matrix(b_));
#endif
}

void Sgemm::time() {
  best_.time([this] { multiply(); });
}

double Sgemm::gflops() const {
  constexpr double n = kSgemmSize;
  return 2 * n * n * n / best_.seconds() * 1e-9;
}

}  // namespace dp::cli
