// parse_checkpoint_index, and back.
#include "io/checkpoint_index.h"

#include <filesystem>

#include "base/error.h"
#include "target.h"

DP_FUZZ_TARGET(checkpoint_index, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  dp::WeightMap weight_map;
  try {
    weight_map = dp::parse_checkpoint_index({reinterpret_cast<const char*>(data), size}, "f");
  } catch (const dp::InputError&) {
    return 0;
  }
  for (const auto& [name, shard] : weight_map) {
    const std::filesystem::path path = std::filesystem::path("/d") / shard;
    require(path.parent_path() == "/d" && path.lexically_normal() == path &&
                shard.find('\0') == std::string::npos,
            "shards lie beside the index");
  }
  const std::string text = dp::checkpoint_index_text(weight_map, 7);
  require(dp::parse_checkpoint_index(text, "f") == weight_map, "what is written is read back");
  return 0;
}
