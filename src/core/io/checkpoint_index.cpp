#include "io/checkpoint_index.h"

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"

namespace dp {

using nlohmann::json;
using nlohmann::ordered_json;

WeightMap parse_checkpoint_index(std::string_view json_text, const std::string& file) {
  const auto broken_index = [&](const std::string& problem) {
    return InputError(file + ": " + problem);
  };
  const json index = parse_json(json_text, file, "the index");
  if (!index.is_object()) throw broken_index("the index is not an object");
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object())
    throw broken_index("the index has no object 'weight_map'");
  WeightMap weight_map;
  for (const auto& [name, shard] : found->items()) {
    const std::string tensor = "tensor " + quote(name);
    if (!shard.is_string())
      throw broken_index(tensor + " is mapped to " + quote(shard.dump()) + ", not to a file");
    const auto& shard_name = shard.get_ref<const std::string&>();
    // A file of this directory and no other: "../x", "/x" and "x\0y" are somebody's trap.
    const bool plain = !shard_name.empty() && shard_name != "." && shard_name != ".." &&
                       shard_name.size() <= 255 &&
                       shard_name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain)
      throw broken_index(tensor + " is mapped to " + quote(shard_name) +
                     ", which is not the name of a file beside the index");
    weight_map[name] = shard_name;
  }
  return weight_map;
}

std::string checkpoint_index_text(const WeightMap& weight_map, int64_t total_bytes) {
  ordered_json index;
  index["metadata"]["total_size"] = total_bytes;
  index["weight_map"] = ordered_json::object();
  for (const auto& [name, shard] : weight_map) index["weight_map"].push_back({name, shard});
  return index.dump(2) + "\n";
}

}  // namespace dp
