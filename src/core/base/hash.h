// A checksum of bytes.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dp {

/// XXH64 with seed 0, of bytes that come in parts: the same on every machine, several bytes per cycle. Against
/// accidents, not against malice.
class Hasher {
 public:
  void add(std::span<const std::byte> bytes);
  uint64_t result() const;

 private:
  void take_block(const std::byte* block);

  std::array<uint64_t, 4> lanes_ = {0x60ea27eeadc0b5d6, 0xc2b2ae3d27d4eb4f, 0, 0x61c8864e7a143579};
  std::array<std::byte, 32> begun_{};  // a block of which only the first size_ % 32 bytes are there
  uint64_t size_ = 0;
};

uint64_t xxh64(std::span<const std::byte> bytes);
inline uint64_t xxh64(std::string_view text) { return xxh64(std::as_bytes(std::span(text))); }

/// 16 hexadecimal digits.
std::string to_hex(uint64_t hash);

}  // namespace dp
