// What the files of a checkpoint are called.
#pragma once
#include <string_view>

namespace dp {

inline constexpr std::string_view kSingleFile = "model.safetensors";
inline constexpr std::string_view kIndexFile = "model.safetensors.index.json";

/// In the order in which a directory is searched.
inline constexpr std::string_view kWeightFiles[] = {kSingleFile, kIndexFile, "pytorch_model.bin",
                                                    "pytorch_model.bin.index.json"};

}  // namespace dp
