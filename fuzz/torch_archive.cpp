// parse_torch_archive on files in memory: the zip directory, the pickle, and how they fit.
#include "io/torch_archive.h"

#include <set>

#include "base/error.h"
#include "target.h"

DP_FUZZ_TARGET(torch_archive, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  const auto bytes = dp::fuzz::as_bytes(data, size);
  std::vector<dp::ArchivedTensor> entries;
  try {
    entries = dp::parse_torch_archive(bytes, "f");
  } catch (const dp::InputError&) {
    return 0;
  }
  std::set<std::string> names;
  for (const dp::ArchivedTensor& entry : entries) {
    require(names.insert(entry.name).second, "names differ");
    require(dp::fuzz::inside(entry.data, bytes), "data lies in the file");
    require(entry.shape.size() == entry.strides.size(), "every dimension has a stride");
    __int128 last = 0;
    bool empty = false;
    for (size_t i = 0; i < entry.shape.size(); ++i) {
      require(entry.shape[i] >= 0 && entry.strides[i] >= 0, "nothing is negative");
      empty = empty || entry.shape[i] == 0;
      last += static_cast<__int128>(entry.shape[i] - 1) * entry.strides[i];
    }
    const auto elements = static_cast<__int128>(entry.data.size() / dp::dtype_size(entry.dtype));
    require(elements == (empty ? 0 : last + 1), "data reaches from the first to the last element");
  }
  return 0;
}
