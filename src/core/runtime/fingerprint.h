// Tells models apart whose states would have the same shapes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace dp::runtime {

/// FNV-1a over names, shapes and the first values of all parameters, in the order of the model. Saved states carry it,
/// so what goes into it must not change.
class Fingerprint {
 public:
  static constexpr size_t kSampled = 64;  // values of each parameter that count

  void add(std::string_view name, std::span<const int64_t> shape, std::span<const float> values) {
    mix(std::as_bytes(std::span(name)));
    mix(std::as_bytes(shape));
    mix(std::as_bytes(values.first(std::min(kSampled, values.size()))));
  }
  std::string text() const { return to_hex(hash_); }

 private:
  void mix(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes)
      hash_ = (hash_ ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  }

  uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace dp::runtime
