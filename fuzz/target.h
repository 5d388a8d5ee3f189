// What a fuzz target is to its drivers: libFuzzer, or replay.cpp in the ordinary test suite.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>

/// DP_FUZZ_TARGET(name, const uint8_t* data, size_t size) { ... } feeds one input to a parser. It returns
/// 0 whether the parser takes the input or refuses it by InputError; whatever else happens (another
/// exception, a broken promise, a sanitizer's report) is a finding. For libFuzzer each target is a program
/// of its own; for replay.cpp all are in one, by their names.
#ifdef DP_FUZZ
#define DP_FUZZ_TARGET(name, data, size) extern "C" int LLVMFuzzerTestOneInput(data, size)
#else
#define DP_FUZZ_TARGET(name, data, size)                                                    \
  static int fuzz_##name(data, size);                                                       \
  static const bool kHas_##name = ::dp::fuzz::targets().emplace(#name, fuzz_##name).second; \
  static int fuzz_##name(data, size)
#endif

namespace dp::fuzz {

using Target = int (*)(const uint8_t* data, size_t size);

inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

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
