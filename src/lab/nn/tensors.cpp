#include "nn/tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/check_input.h"
#include "base/error.h"
#include "base/quote.h"

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

at::Tensor make_tensor(const StoredTensor& stored) {
  const auto fail = [&](const std::string& problem) {
    throw InputError(stored.file + ": tensor " + quote(stored.name) + " " + problem);
  };
  const auto* pair = std::ranges::find(kTypes, stored.dtype, &TypePair::dtype);
  if (pair == std::end(kTypes))
    fail("has dtype " + std::string(dtype_name(stored.dtype)) + ", which torch does not have");
  // The strides of an empty tensor are products of its other sizes.
  int64_t product = 1;
  for (const int64_t size : stored.shape)
    if (__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product))
      fail("has a shape whose strides do not fit into 64 bits");

  const auto options = at::TensorOptions().dtype(pair->type);
  if (stored.data.empty()) return at::empty(stored.shape, options);
  const auto wrap = [&](const std::byte* begin, std::shared_ptr<const void> owner) {
    void* memory = const_cast<std::byte*>(begin);  // a private mapping, or our own copy
    const auto release = [owner = std::move(owner)](void*) {};
    return stored.strides.empty()
               ? at::from_blob(memory, stored.shape, release, options)
               : at::from_blob(memory, stored.shape, stored.strides, release, options);
  };
  if (reinterpret_cast<uintptr_t>(stored.data.data()) % dtype_size(stored.dtype) == 0)
    return wrap(stored.data.data(), stored.mapping);
  const auto copy =
      std::make_shared<std::vector<std::byte>>(stored.data.begin(), stored.data.end());
  return wrap(copy->data(), copy);
}

}  // namespace

at::Tensor load_tensor(const SafetensorsFile& file, std::string_view name) {
  const TensorEntry& entry = file.at(name);
  return make_tensor(
      {entry.name, file.path().string(), entry.dtype, entry.shape, {}, entry.data, file.mapping()});
}

at::Tensor load_tensor(const Checkpoint& checkpoint, std::string_view name) {
  return make_tensor(checkpoint.tensor(name));
}

TensorEntry tensor_entry(std::string_view name, const at::Tensor& tensor) {
  const auto* pair = std::ranges::find(kTypes, tensor.scalar_type(), &TypePair::type);
  DP_CHECK_INPUT(pair != std::end(kTypes), "tensor_entry: tensor ", quote(name), " has dtype ",
                 tensor.scalar_type(), ", which safetensors does not have");
  DP_CHECK_INPUT(tensor.is_contiguous() && tensor.device().is_cpu(), "tensor_entry: tensor ",
                 quote(name), " must be contiguous and on the CPU");
  return {std::string(name),
          pair->dtype,
          tensor.sizes().vec(),
          {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}};
}

void write_checkpoint(const std::filesystem::path& directory, const NamedTensors& tensors,
                      int64_t max_shard_bytes) {
  NamedTensors kept;  // what the entries point into
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    kept.emplace_back(name, tensor.detach().cpu().contiguous());
    entries.push_back(tensor_entry(name, kept.back().second));
  }
  write_checkpoint(directory, entries, max_shard_bytes);
}

}  // namespace dp
