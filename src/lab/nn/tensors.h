// Between the tensors of files and those of torch.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/checkpoint.h"
#include "io/safetensors.h"

namespace dp {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Without a copy where the data is aligned for its dtype: it then keeps the file mapped, and writing to it never
/// reaches the file. Throws InputError when there is no such tensor or torch has no such dtype.
at::Tensor load_tensor(const SafetensorsFile& file, std::string_view name);
at::Tensor load_tensor(const Checkpoint& checkpoint, std::string_view name);  // strided as it was saved

/// An entry that points into `tensor`, which must be a contiguous CPU tensor and outlive it.
TensorEntry tensor_entry(std::string_view name, const at::Tensor& tensor);

/// write_checkpoint of io/checkpoint.h, of tensors with any strides.
void write_checkpoint(const std::filesystem::path& directory, const NamedTensors& tensors,
                      int64_t max_shard_bytes = kMaxShardBytes);

}  // namespace dp
