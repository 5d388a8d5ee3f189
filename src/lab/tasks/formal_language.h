// Questions about a whole sequence, answered once at its end: the paper's tasks of the Chomsky hierarchy.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "tasks/task.h"

namespace dp {

/// Sequences to train with have lengths of their own, drawn with equal probability from min_length to the
/// length of the task, and are filled up with PAD, after which nothing is asked. Those to validate and to
/// test with have exactly the length of the task.
///
/// Sequences are divided among splits as random_stream.h says, by length and symbols.
class FormalLanguage : public SequenceTask {
 public:
  int64_t vocab_size() const override { return pad() + 1; }
  /// Follows all other tokens.
  virtual int64_t pad() const = 0;
  /// "0", "+", "PAD".
  virtual std::string token_name(int64_t token) const = 0;
  int64_t min_length() const { return min_length_; }
  bool asks_once() const override { return true; }

 protected:
  /// Throws InputError for lengths below `shortest`.
  FormalLanguage(int64_t min_length, int64_t shortest);

  /// How many symbols are drawn for a sequence of `length`.
  virtual int64_t num_symbols(int64_t length) const = 0;
  virtual void draw(RandomStream& random, std::span<int32_t> symbols) const = 0;
  /// Tokens and answers of a sequence, into arrays full of PAD and kNothingAsked.
  virtual void write(std::span<const int32_t> symbols, Split split, int64_t* tokens,
                     int64_t* targets) const = 0;

  void make_sequence(const SequenceKey& key, int64_t* tokens, int64_t* targets) const final;

 private:
  int64_t min_length_;
};

/// --min-length of the tasks above.
Setting min_length_setting(int64_t& min_length, int64_t shortest);

}  // namespace dp
