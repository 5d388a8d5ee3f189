#include "tools/blas_kernels.h"

#include <gtest/gtest.h>

namespace dp::cli {
namespace {

constexpr CpuFeatures kOldCpu{}, kAvx2{.avx2 = true}, kAvx512{.avx2 = true, .avx512 = true};

TEST(BlasKernels, OldOnesAreReplacedByWhatTheCpuCanRun) {
  EXPECT_EQ(better_blas_kernels("Prescott", kAvx512), "SkylakeX");
  EXPECT_EQ(better_blas_kernels("Nehalem", kAvx2), "Haswell");
  EXPECT_EQ(better_blas_kernels("Prescott", kOldCpu), "");
}

TEST(BlasKernels, ThoseForTheCpuStay) {
  for (const char* name : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids", "armv8"})
    EXPECT_EQ(better_blas_kernels(name, kAvx512), "") << name;
}

}  // namespace
}  // namespace dp::cli
