#include "tasks/shuffle.h"

#include <bit>
#include <stdexcept>

#include "tasks/random_stream.h"

namespace dp {

Shuffle::Shuffle(uint64_t size, uint64_t key) : size_(size), key_(key) {
  if (size == 0 || size > uint64_t{1} << 62)
    throw std::invalid_argument("Shuffle: size must be 1 to 2^62");
  const int bits = std::bit_width(size - 1);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

uint64_t Shuffle::operator()(uint64_t i) const {
  constexpr uint64_t kRounds = 16;
  const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1,
                 high_mask = (uint64_t{1} << high_bits_) - 1;
  do {
    uint64_t low = i & low_mask, high = i >> low_bits_;
    // Each round adds to one half what depends on the other alone, which can be undone: a bijection.
    for (uint64_t round = 0; round < kRounds; round += 2) {
      low = (low + RandomStream::mix(RandomStream::mix(key_ + round) ^ high)) & low_mask;
      high = (high + RandomStream::mix(RandomStream::mix(key_ + round + 1) ^ low)) & high_mask;
    }
    i = high << low_bits_ | low;
  } while (i >= size_);  // fewer than half of all: two rounds on average at most
  return i;
}

}  // namespace dp
