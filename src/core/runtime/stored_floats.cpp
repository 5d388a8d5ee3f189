#include "runtime/stored_floats.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/quote.h"
#include "kernels/weight_matrix.h"

namespace dp::runtime {
namespace {

template <class T>
T element(const std::byte* data, int64_t i) {
  T value;
  std::memcpy(&value, data + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

// f(position of the element in the data) for every index, the last axis fastest.
template <class F>
void for_elements(const StoredTensor& tensor, const F& f) {
  size_t count = 1;
  for (const int64_t extent : tensor.shape) count *= static_cast<size_t>(extent);
  if (is_row_major(tensor)) {
    for (size_t i = 0; i < count; ++i) f(static_cast<int64_t>(i));
    return;
  }
  std::vector<int64_t> index(tensor.shape.size());
  for (size_t n = 0; n < count; ++n) {
    int64_t position = 0;
    for (size_t axis = 0; axis < index.size(); ++axis)
      position += index[axis] * tensor.strides[axis];
    f(position);
    for (size_t axis = index.size(); axis-- > 0 && ++index[axis] == tensor.shape[axis];)
      index[axis] = 0;
  }
}

}  // namespace

bool is_row_major(const StoredTensor& tensor) {
  if (tensor.strides.empty()) return true;
  int64_t stride = 1;
  for (size_t axis = tensor.shape.size(); axis-- > 0;) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != stride) return false;
    stride *= tensor.shape[axis];
  }
  return true;
}

float from_float16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

uint16_t to_float16(float x) {
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const float size = std::abs(x);
  if (std::isnan(x)) return static_cast<uint16_t>(sign | 0x7e00);
  if (size >= 65520) return static_cast<uint16_t>(sign | 0x7c00);  // rounds beyond the largest
  // The distance of neighbours around x is 2^step.
  const int step = size < 0x1p-14f ? -24 : std::ilogb(size) - 10;
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, -step)));
  // 1024 units of the smallest step are where the next begins, so that carries work by themselves.
  return static_cast<uint16_t>(sign | (units + ((step + 24) << 10)));
}

uint16_t to_bfloat16(float x) {
  const auto word = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>(word >> 16 | 64);
  return static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

std::vector<float> to_floats(const StoredTensor& tensor) {
  std::vector<float> values;
  const std::byte* data = tensor.data.data();
  const auto read = [&]<class T>(T, const auto& convert) {
    values.reserve(tensor.data.size() / sizeof(T));
    for_elements(tensor, [&](int64_t i) { values.push_back(convert(element<T>(data, i))); });
  };
  switch (tensor.dtype) {
    case DType::kF32:
      read(float{}, [](float x) { return x; });
      break;
    case DType::kF64:
      read(double{}, [](double x) { return static_cast<float>(x); });
      break;
    case DType::kBF16:
      read(uint16_t{}, from_bfloat16);
      break;
    case DType::kF16:
      read(uint16_t{}, from_float16);
      break;
    default:
      throw InputError(tensor.file + ": tensor " + quote(tensor.name) + " holds " +
                       std::string(dtype_name(tensor.dtype)) + ", expected floating-point numbers");
  }
  return values;
}

}  // namespace dp::runtime
