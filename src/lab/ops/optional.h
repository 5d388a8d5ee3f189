// torch's optional, which is std::optional in newer releases.
#pragma once
#include <torch/version.h>

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 6)
#include <optional>
namespace dp {
template <class T>
using Optional = std::optional<T>;
}  // namespace dp
#else
#include <c10/util/Optional.h>
namespace dp {
template <class T>
using Optional = c10::optional<T>;
}  // namespace dp
#endif
