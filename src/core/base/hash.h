// A checksum of bytes: XXH64.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace dp {

/// XXH64 with seed 0, of bytes that come in parts: the same on every machine, several bytes per cycle. Against
/// accidents, not against malice.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  void add(std::span<const std::byte> bytes);
  uint64_t result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint64_t xxh64(std::span<const std::byte> bytes);
inline uint64_t xxh64(std::string_view text) { return xxh64(std::as_bytes(std::span(text))); }

/// 16 hexadecimal digits.
std::string to_hex(uint64_t hash);

}  // namespace dp
