// A task: batches of tokens and of the answers expected at each.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/Optional.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>

#include "base/setting.h"
#include "tasks/random_stream.h"

namespace dp {

/// A target where nothing is asked; the loss and the accuracy pass over it.
inline constexpr int64_t kNothingAsked = -100;

/// B sequences of T tokens.
struct Batch {
  at::Tensor tokens;   // [B,T] int64, from 0 to vocab_size()-1
  at::Tensor targets;  // [B,T] int64, the answer at each token, or kNothingAsked
  /// [S+1] int64 from 0 to B T, each row's begin among them: where sequences of the row tokens.view({1, B * T}) begin
  /// that know nothing of each other. None: each row is one.
  c10::optional<at::Tensor> cu_seqlens;

  /// Rows begin .. end-1.
  Batch rows(int64_t begin, int64_t end) const;
};

/// One of several equal parts, up to one element: of `total` elements, begin(total) .. end(total)-1.
struct Share {
  int64_t index = 0, parts = 1;
  int64_t begin(int64_t total) const { return total * index / parts; }
  int64_t end(int64_t total) const { return total * (index + 1) / parts; }
};

/// How hard sequences are to learn from; a length alone means all symbols.
struct Difficulty {
  // NOLINTNEXTLINE(google-explicit-constructor): a length is a difficulty
  Difficulty(int64_t length, int64_t letters = 0) : length(length), letters(letters) {}
  bool operator==(const Difficulty&) const = default;

  int64_t length;
  int64_t letters;  // made of the first so many of the task's symbols; 0: all
};

/// A source of sequences that are numbered within each stream, from 0 on without end. A stream is told
/// by seed, split and difficulty; batch `index` holds the sequences index * batch_size and following. What a
/// batch holds depends on the arguments alone, to the bit and on every machine: to go on where one
/// stopped takes nothing but the index, and the same sequences come in batches of any size.
/// Const, and therefore callable from several threads at once.
class Task {
 public:
  virtual ~Task() = default;

  virtual int64_t vocab_size() const = 0;
  /// How many symbols sequences can be made of; 0 if that is not for a curriculum to choose.
  virtual int64_t num_letters() const { return 0; }
  /// The shortest length that there are sequences of.
  virtual int64_t shortest() const { return 1; }
  /// Whether each sequence has one answer, at its end. Then lengths are measured one by one; otherwise
  /// the longest sequences tell of all shorter ones too, their beginnings.
  virtual bool asks_once() const { return false; }
  /// Whether models are measured by their loss, as on text, rather than by right answers.
  virtual bool judged_by_loss() const { return false; }
  /// How many sequences there are before they come again.
  virtual int64_t num_sequences(Split, int64_t /*length*/) const {
    return std::numeric_limits<int64_t>::max();
  }
  /// The tokenizer's file, to keep with a model; empty: none.
  virtual std::filesystem::path tokenizer_file() const { return {}; }
  /// The share of answers that guessing gets right.
  virtual double chance() const = 0;
  /// How many tokens T a sequence of `length` has.
  virtual int64_t num_tokens(int64_t length) const = 0;
  /// Whether no sequence of this length comes up in two different splits, whatever the seeds.
  virtual bool splits_are_disjoint(int64_t length) const = 0;
  /// [batch_size, num_tokens(length)]. Throws InputError for no sequences, for too short ones, or
  /// for more letters than there are.
  Batch batch(Split split, uint64_t seed, uint64_t index, int64_t batch_size,
              const Difficulty& difficulty) const;
  /// The sequences first .. first+count-1 of the stream. Throws as batch() does.
  Batch sequences(Split split, uint64_t seed, uint64_t first, int64_t count,
                  const Difficulty& difficulty) const;

 protected:
  virtual Batch make_sequences(Split split, uint64_t seed, uint64_t first, int64_t count,
                               const Difficulty& difficulty) const = 0;
};

/// A task that makes each of its sequences alone.
class SequenceTask : public Task {
 protected:
  Batch make_sequences(Split split, uint64_t seed, uint64_t first, int64_t count,
                       const Difficulty& difficulty) const final;
  /// Fills one sequence: num_tokens(key.length) tokens and as many targets.
  virtual void make_sequence(const SequenceKey& key, int64_t* tokens, int64_t* targets) const = 0;
};

}  // namespace dp
