// Which shard of a checkpoint holds which tensor: *.index.json as Hugging Face writes it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dp {

/// Tensor -> name of the file, beside the index, that holds it.
using WeightMap = std::map<std::string, std::string, std::less<>>;

/// Throws InputError for anything but a weight_map from names to plain file names; `file` is for
/// its message.
WeightMap parse_checkpoint_index(std::string_view json_text, const std::string& file);

/// The text of an index; total_bytes is of all tensors together.
std::string checkpoint_index_text(const WeightMap& weight_map, int64_t total_bytes);

}  // namespace dp
