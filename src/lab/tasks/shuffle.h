// A random order of n things, computed on the fly.
#pragma once
#include <cstdint>

namespace dp {

/// A bijection of 0 .. size-1 that a key chooses, in no memory and a few dozen operations per call: a Feistel network
/// over the next power of two, applied again while its result is too large. The same on every machine.
class Shuffle {
 public:
  /// 1 <= size <= 2^62.
  Shuffle(uint64_t size, uint64_t key);
  /// The index before shuffling of the i-th element; i < size.
  uint64_t operator()(uint64_t i) const;

 private:
  uint64_t size_, key_;
  int low_bits_ = 0, high_bits_ = 0;
};

}  // namespace dp
