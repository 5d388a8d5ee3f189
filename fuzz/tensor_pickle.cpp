// parse_tensor_pickle: the stack machine, without a zip archive around it.
#include <set>

#include "base/error.h"
#include "io/pickle.h"
#include "target.h"

DP_FUZZ_TARGET(tensor_pickle, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  std::vector<dp::PickledTensor> tensors;
  try {
    tensors = dp::parse_tensor_pickle(dp::fuzz::as_bytes(data, size), "f");
  } catch (const dp::InputError&) {
    return 0;
  }
  std::set<std::string> names;
  for (const dp::PickledTensor& tensor : tensors) {
    require(names.insert(tensor.name).second, "names differ");
    require(
        0 <= tensor.begin && tensor.begin <= tensor.end && tensor.end <= tensor.storage_elements,
        "tensors lie in their storage");
    __int128 elements = 1;
    for (const int64_t extent : tensor.shape) elements = extent == 0 ? 0 : elements * extent;
    require(elements <= tensor.storage_elements, "no more elements than the storage has");
  }
  return 0;
}
