// OpenBLAS's sgemm, if it is installed, for a program that is not linked with it.
#pragma once
#include <cstddef>
#include <functional>

namespace dp::cli {

/// y = x w^T for x [M,I], w [O,I], y [M,O].
using SgemmFunction = std::function<void(const float* x, size_t M, size_t I, const float* w, size_t O, float* y)>;

/// On so many threads; empty if there is no OpenBLAS. With kernels that this processor deserves: OpenBLAS falls back to
/// very old ones on a processor that it does not know.
SgemmFunction find_sgemm(int threads);

}  // namespace dp::cli
