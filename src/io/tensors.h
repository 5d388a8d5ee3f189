// Between the entries of a file and torch tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

#include "io/safetensors.h"
#include "io/torch_archive.h"

namespace dp {

/// The tensor of an entry of `file`, without a copy where its data is aligned for its dtype (it
/// then keeps the file mapped). Throws InputError when there is no such entry or torch has no such
/// dtype.
at::Tensor load_tensor(const SafetensorsFile& file, std::string_view name);
at::Tensor load_tensor(const TorchArchive& file, std::string_view name);  // strided as it was saved

/// An entry that points into `tensor`, which must be a contiguous CPU tensor and outlive it.
TensorEntry entry_of(std::string_view name, const at::Tensor& tensor);

}  // namespace dp
