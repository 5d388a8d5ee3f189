// What a fuzz target is to its drivers: libFuzzer, or replay.cpp in the ordinary test suite.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

/// Feeds one input to a parser. Returns 0 whether the parser takes the input or refuses it by
/// InputError; whatever else happens (another exception, a broken promise, a sanitizer's report) is
/// a finding.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace dp::fuzz {

inline std::span<const std::byte> as_bytes(const uint8_t* data, size_t size) {
  return std::as_bytes(std::span(data, size));
}

/// For what must hold of every input that a parser takes.
inline void require(bool holds, const char* promise) {
  if (!holds) throw std::logic_error(std::string("broken promise: ") + promise);
}

/// Whether `part` lies inside `whole`; an empty one may lie anywhere.
inline bool inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

}  // namespace dp::fuzz
