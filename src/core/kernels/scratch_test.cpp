#include "kernels/scratch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace dp::scratch_test {
namespace {

TEST(Scratch, LaysOutAlignedArraysThatDoNotOverlap) {
  const std::vector<size_t> sizes = {1, 16, 17, 0, 5};
  std::vector<float*> arrays;
  int runs = 0;
  const Scratch scratch([&](ScratchLayout& layout) {
    ++runs;
    arrays.clear();
    for (const size_t size : sizes) arrays.push_back(layout.take(size));
  });
  EXPECT_EQ(runs, 2);  // measured, then divided
  EXPECT_EQ(arrays[0], scratch.data());
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arrays[i]) % 64, 0u) << i;
    if (i > 0) {
      EXPECT_GE(arrays[i], arrays[i - 1] + sizes[i - 1]) << i;
    }
    for (size_t j = 0; j < sizes[i]; ++j)
      arrays[i][j] = static_cast<float>(i);  // asan watches the end
  }
  for (size_t i = 0; i < sizes.size(); ++i)
    for (size_t j = 0; j < sizes[i]; ++j) EXPECT_EQ(arrays[i][j], static_cast<float>(i));
}

TEST(Scratch, MeasuringGivesNoMemory) {
  ScratchLayout layout;
  EXPECT_EQ(layout.take(17), nullptr);
  EXPECT_EQ(layout.size(), 32u);
}

TEST(Scratch, OneArray) {
  for (const size_t size : {0, 1, 1000}) {
    const Scratch scratch(size);
    ASSERT_NE(scratch.data(), nullptr);
    for (size_t i = 0; i < size; ++i) scratch.data()[i] = 1;
  }
}

}  // namespace
}  // namespace dp::scratch_test
