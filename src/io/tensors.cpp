#include "io/tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace dp {
namespace {

struct TypePair {
  DType dtype;
  at::ScalarType type;
};
constexpr TypePair kTypes[] = {{DType::kBool, at::kBool}, {DType::kU8, at::kByte},
                               {DType::kI8, at::kChar},   {DType::kI16, at::kShort},
                               {DType::kF16, at::kHalf},  {DType::kBF16, at::kBFloat16},
                               {DType::kI32, at::kInt},   {DType::kF32, at::kFloat},
                               {DType::kI64, at::kLong},  {DType::kF64, at::kDouble}};

// `strides` may be empty: row-major. `data` reaches from the first to the last element.
template <class File>
at::Tensor make_tensor(const File& file, std::string_view name, DType dtype,
                       const std::vector<int64_t>& shape, at::IntArrayRef strides,
                       std::span<const std::byte> data) {
  const auto fail = [&](const std::string& problem) {
    throw InputError(file.path().string() + ": tensor " + quote(name) + " " + problem);
  };
  const auto* pair = std::ranges::find(kTypes, dtype, &TypePair::dtype);
  if (pair == std::end(kTypes))
    fail("has dtype " + std::string(name_of(dtype)) + ", which torch does not have");
  // The strides of an empty tensor are products of its other sizes.
  int64_t product = 1;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product))
      fail("has a shape whose strides do not fit into 64 bits");

  const auto options = at::TensorOptions().dtype(pair->type);
  if (data.empty()) return at::empty(shape, options);
  const auto wrap = [&](const std::byte* begin, std::shared_ptr<const void> owner) {
    void* memory = const_cast<std::byte*>(begin);  // a private mapping, or our own copy
    const auto release = [owner = std::move(owner)](void*) {};
    return strides.empty() ? at::from_blob(memory, shape, release, options)
                           : at::from_blob(memory, shape, strides, release, options);
  };
  if (reinterpret_cast<uintptr_t>(data.data()) % size_of(dtype) == 0)
    return wrap(data.data(), file.mapping());
  const auto copy = std::make_shared<std::vector<std::byte>>(data.begin(), data.end());
  return wrap(copy->data(), copy);
}

}  // namespace

at::Tensor load_tensor(const SafetensorsFile& file, std::string_view name) {
  const TensorEntry& entry = file.at(name);
  return make_tensor(file, name, entry.dtype, entry.shape, {}, entry.data);
}

at::Tensor load_tensor(const TorchArchive& file, std::string_view name) {
  const ArchivedTensor& entry = file.at(name);
  return make_tensor(file, name, entry.dtype, entry.shape, entry.strides, entry.data);
}

TensorEntry entry_of(std::string_view name, const at::Tensor& tensor) {
  const auto* pair = std::ranges::find(kTypes, tensor.scalar_type(), &TypePair::type);
  TORCH_CHECK_VALUE(pair != std::end(kTypes), "entry_of: tensor ", quote(name), " has dtype ",
                    tensor.scalar_type(), ", which safetensors does not have");
  TORCH_CHECK_VALUE(tensor.is_contiguous() && tensor.device().is_cpu(), "entry_of: tensor ",
                    quote(name), " must be contiguous and on the CPU");
  return {std::string(name),
          pair->dtype,
          tensor.sizes().vec(),
          {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}};
}

}  // namespace dp
