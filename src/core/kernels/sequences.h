// Sequences of different lengths in one array.
#pragma once
#include <cstddef>
#include <cstdint>

namespace dp {

/// Sequences laid end to end ("packed"): sequence s is tokens offsets[s] .. offsets[s+1]-1, so a dense batch [B,T,...] is
/// the case offsets = {0, T, 2T, ..., B T}. Empty sequences are allowed.
struct Sequences {
  size_t num_sequences = 0;
  const int64_t* offsets = nullptr;  // [num_sequences+1], starts at 0, never decreases

  size_t num_tokens() const { return static_cast<size_t>(offsets[num_sequences]); }
  size_t first_token(size_t s) const { return static_cast<size_t>(offsets[s]); }
  size_t end_token(size_t s) const { return static_cast<size_t>(offsets[s + 1]); }
  size_t length(size_t s) const { return end_token(s) - first_token(s); }
};

}  // namespace dp
