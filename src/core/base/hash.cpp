#include "base/hash.h"

#define XXH_INLINE_ALL  // the header alone: whoever links this library needs no other
#include <xxhash.h>

namespace dp {

struct Hasher::State {
  XXH64_state_t xxh64;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH64_reset(&state_->xxh64, /*seed=*/0); }
Hasher::~Hasher() = default;

void Hasher::add(std::span<const std::byte> bytes) {
  XXH64_update(&state_->xxh64, bytes.data(), bytes.size());
}

uint64_t Hasher::result() const { return XXH64_digest(&state_->xxh64); }

uint64_t xxh64(std::span<const std::byte> bytes) {
  return XXH64(bytes.data(), bytes.size(), /*seed=*/0);
}

std::string to_hex(uint64_t hash) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; hash >>= 4) text[i] = "0123456789abcdef"[hash & 15];
  return text;
}

}  // namespace dp
