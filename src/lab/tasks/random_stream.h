// Random numbers that are a pure function of what they are for, and the division of all sequences into
// those to train, to validate and to test with.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>

namespace dp {

enum class Split : uint8_t { kTrain, kValidation, kTest };

/// Names one sequence of one stream.
struct SequenceKey {
  Split split = Split::kTrain;
  uint64_t seed = 0;
  uint64_t number = 0;  // within the stream
  int64_t length = 0;
  int64_t letters = 0;  // the first so many of the task's symbols; 0: all
};

/// SplitMix64 started at a hash of the key: no state to save, the same bits on every machine. Nothing of
/// std::'s distributions, whose results differ between libraries.
class RandomStream {
 public:
  /// Streams of different keys are independent for all that can be told.
  RandomStream(std::initializer_list<uint64_t> key);
  explicit RandomStream(const SequenceKey& key)
      : RandomStream({static_cast<uint64_t>(key.split), key.seed, key.number,
                      static_cast<uint64_t>(key.length)}) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    return mix(state_);
  }

  /// Each of 0 .. n-1 with exactly the same probability; n > 0.
  uint32_t below(uint32_t n) {
    // The upper word of a 32-bit number times n; those few products whose lower word would favour some
    // results are drawn again.
    uint64_t product = (next() >> 32) * n;
    if (static_cast<uint32_t>(product) < n) {
      const uint32_t biased = -n % n;
      while (static_cast<uint32_t>(product) < biased) product = (next() >> 32) * n;
    }
    return static_cast<uint32_t>(product >> 32);
  }

  /// A bijection of 64-bit numbers that looks random.
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

 private:
  uint64_t state_ = 0;
};

/// The split that a sequence belongs to, by a hash of its symbols: about 3/4 of all sequences of a
/// length are to train with, 1/8 each to validate and to test. It depends on nothing else, so that no
/// choice of seeds can make a model see in training what it is tested with.
Split sequence_split(std::span<const int32_t> sequence);

/// Spaces of sequences smaller than this are not divided: all splits draw from all of it. A handful of
/// sequences divided by chance may leave a split without any; a larger one, for what matters, cannot.
inline constexpr int64_t kSmallestDivided = 4096;

/// Whether `symbols` to the power of `length` is at least kSmallestDivided.
bool space_is_divided(int64_t symbols, int64_t length);

/// Fills `sequence` by draw(RandomStream&, sequence): again and again until it belongs to the split,
/// unless the space is not divided. Draws that are equally likely among all sequences are so among those
/// of the split.
template <class Draw>
void draw_sequence(RandomStream& random, Split split, bool divided, std::span<int32_t> sequence,
                   const Draw& draw) {
  do draw(random, sequence);
  while (divided && sequence_split(sequence) != split);
}

/// The same from the key's own stream, for key.length symbols.
template <class Draw>
void draw_sequence(const SequenceKey& key, bool divided, std::span<int32_t> sequence,
                   const Draw& draw) {
  RandomStream random(key);
  draw_sequence(random, key.split, divided, sequence, draw);
}

}  // namespace dp
