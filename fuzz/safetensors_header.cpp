// parse_safetensors on files in memory.
#include <cstring>
#include <set>
#include <vector>

#include "base/error.h"
#include "io/safetensors.h"
#include "target.h"

namespace dp::fuzz {
namespace {

void parse(std::span<const std::byte> bytes) {
  TensorMetadata metadata;
  std::vector<TensorEntry> entries;
  try {
    entries = parse_safetensors(bytes, "f", &metadata);
  } catch (const InputError&) {
    return;
  }
  std::set<std::string> names;
  size_t total = 0;
  for (const TensorEntry& entry : entries) {
    require(names.insert(entry.name).second, "names differ");
    require(inside(entry.data, bytes), "data lies in the file");
    size_t elements = 1;
    for (const int64_t extent : entry.shape) {
      require(extent >= 0, "sizes are not negative");
      elements = extent == 0 ? 0 : elements * static_cast<size_t>(extent);
    }
    require(elements * dtype_size(entry.dtype) == entry.data.size(), "data fits shape and dtype");
    total += entry.data.size();
  }
  uint64_t header;
  std::memcpy(&header, bytes.data(), sizeof header);
  require(8 + header + total == bytes.size(), "tensors cover the file");
}

}  // namespace
}  // namespace dp::fuzz

DP_FUZZ_TARGET(safetensors_header, const uint8_t* data, size_t size) {
  dp::fuzz::parse(dp::fuzz::as_bytes(data, size));
  // Once more with the length that the header turns out to have, or few changes to it would ever be
  // parsed: it ends with the last brace.
  size_t end = size;
  while (end > 8 && data[end - 1] != '}') --end;
  if (end <= 8) return 0;
  std::vector<uint8_t> repaired(data, data + size);
  const uint64_t header = end - 8;
  std::memcpy(repaired.data(), &header, sizeof header);
  dp::fuzz::parse(dp::fuzz::as_bytes(repaired.data(), repaired.size()));
  return 0;
}
