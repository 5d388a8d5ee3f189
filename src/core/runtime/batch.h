// Decoding many sequences together: the weights are read once for all of them.
// B rows, one per sequence; M tokens of prompts, D model width.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/runner.h"

namespace dp::runtime {

/// Rows join and leave between steps; their states are never copied. A row's logits are those of a Session to
/// rounding, not to the bit: products with many rows add in another order than those with few.
class Batch {
 public:
  /// The runner must outlive the batch.
  explicit Batch(Runner& runner) : runner_(&runner) {}

  size_t size() const { return states_.size(); }  // B

  /// The sequence becomes the last row.
  void join(State state);
  /// One token for each row -> logits [B,vocab] of the tokens after them, valid until the next call. Throws InputError
  /// and changes nothing unless there is a token of the vocabulary for each row.
  std::span<const float> step(std::span<const int64_t> tokens);
  /// Takes the row's state out; the last row moves to its place.
  State leave(size_t row);
  const State& state(size_t row) const { return *states_[row]; }

 private:
  Runner* runner_;
  std::vector<std::unique_ptr<State>> states_;
  std::vector<Segment> segments_;
  std::vector<float> logits_;
};

}  // namespace dp::runtime
