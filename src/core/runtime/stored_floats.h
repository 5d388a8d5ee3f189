// Tensors of any floating-point dtype as float32.
#pragma once
#include <cstdint>
#include <vector>

#include "io/checkpoint.h"

namespace dp::runtime {

/// Whether elements follow one another in the order of their indices.
bool is_row_major(const StoredTensor& tensor);

/// Widened or rounded, in the order of the indices. Throws InputError that names the tensor if it does not hold
/// floating-point numbers.
std::vector<float> to_floats(const StoredTensor& tensor);

/// The number that 16 bits stand for in IEEE's half precision.
float from_float16(uint16_t bits);
/// The nearest of them; of two as near, the even one. NaN stays NaN.
uint16_t to_float16(float x);
/// The nearest bfloat16; of two as near, the even one. NaN stays NaN.
uint16_t to_bfloat16(float x);

}  // namespace dp::runtime
