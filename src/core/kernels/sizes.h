// Rounding of sizes.
#pragma once
#include <cstddef>

namespace dp {

constexpr size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }
constexpr size_t round_up(size_t n, size_t multiple) { return ceil_div(n, multiple) * multiple; }

}  // namespace dp
