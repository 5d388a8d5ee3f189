#include "tasks/random_stream.h"

#include <bit>

namespace dp {

RandomStream::RandomStream(std::initializer_list<uint64_t> key) {
  for (const uint64_t part : key) state_ = mix(state_ + 0x9e3779b97f4a7c15) ^ mix(part);
  state_ = mix(state_);
}

Split sequence_split(std::span<const int32_t> sequence) {
  // Every step is a bijection of the hash so far: sequences that differ in one place differ in hash.
  uint64_t hash = sequence.size();
  for (const int32_t symbol : sequence)
    hash = (std::rotl(hash, 23) ^ static_cast<uint32_t>(symbol)) * 0xd1342543de82ef95;
  switch (RandomStream::mix(hash) >> 61) {
    case 0:
      return Split::kTest;
    case 1:
      return Split::kValidation;
    default:
      return Split::kTrain;
  }
}

bool space_is_divided(int64_t symbols, int64_t length) {
  int64_t size = 1;
  for (int64_t i = 0; i < length && size < kSmallestDivided; ++i) {
    if (symbols < 2) return false;
    size *= symbols;
  }
  return size >= kSmallestDivided;
}

}  // namespace dp
