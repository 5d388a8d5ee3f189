#include "base/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace dp {
namespace {

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87, kPrime2 = 0xc2b2ae3d27d4eb4f,
                   kPrime3 = 0x165667b19e3779f9, kPrime4 = 0x85ebca77c2b2ae63,
                   kPrime5 = 0x27d4eb2f165667c5;

// Little-endian, as everything that this project writes.
template <class T>
T load(const std::byte* from) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

uint64_t round(uint64_t lane, uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

}  // namespace

void Hasher::take_block(const std::byte* block) {
  for (size_t i = 0; i < lanes_.size(); ++i)
    lanes_[i] = round(lanes_[i], load<uint64_t>(block + 8 * i));
}

void Hasher::add(std::span<const std::byte> bytes) {
  const size_t begun = size_ % begun_.size();
  size_ += bytes.size();
  if (begun > 0) {
    const size_t more = std::min(begun_.size() - begun, bytes.size());
    std::copy_n(bytes.begin(), more, begun_.begin() + begun);
    bytes = bytes.subspan(more);
    if (begun + more < begun_.size()) return;
    take_block(begun_.data());
  }
  for (; bytes.size() >= begun_.size(); bytes = bytes.subspan(begun_.size()))
    take_block(bytes.data());
  std::ranges::copy(bytes, begun_.begin());
}

uint64_t Hasher::result() const {
  uint64_t hash = kPrime5;
  if (size_ >= begun_.size()) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = (hash ^ round(0, lane)) * kPrime1 + kPrime4;
  }
  hash += size_;
  const std::byte *at = begun_.data(), *end = at + size_ % begun_.size();
  for (; end - at >= 8; at += 8)
    hash = std::rotl(hash ^ round(0, load<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (end - at >= 4) {
    hash = std::rotl(hash ^ load<uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at != end; ++at) hash = std::rotl(hash ^ load<uint8_t>(at) * kPrime5, 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

uint64_t xxh64(std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.add(bytes);
  return hasher.result();
}

std::string to_hex(uint64_t hash) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; hash >>= 4) text[i] = "0123456789abcdef"[hash & 15];
  return text;
}

}  // namespace dp
