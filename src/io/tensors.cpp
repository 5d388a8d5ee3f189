#include "io/tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <string>

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

}  // namespace

at::Tensor load_tensor(const SafetensorsFile& file, std::string_view name) {
  const TensorEntry& entry = file.at(name);
  const auto* pair = std::ranges::find(kTypes, entry.dtype, &TypePair::dtype);
  if (pair == std::end(kTypes))
    throw InputError(file.path().string() + ": tensor " + quote(name) + " has dtype " +
                     std::string(name_of(entry.dtype)) + ", which torch does not have");
  const auto options = at::TensorOptions().dtype(pair->type);
  const bool aligned = reinterpret_cast<uintptr_t>(entry.data.data()) % size_of(entry.dtype) == 0;
  if (aligned && !entry.data.empty()) {
    void* data = const_cast<std::byte*>(entry.data.data());  // the mapping is private and writable
    return at::from_blob(
        data, entry.shape, [mapping = file.mapping()](void*) {}, options);
  }
  at::Tensor copy = at::empty(entry.shape, options);
  if (!entry.data.empty()) std::memcpy(copy.data_ptr(), entry.data.data(), entry.data.size());
  return copy;
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
