// The word problem of a finite group: after each element, which is the product of all so far?
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algebra/group.h"
#include "tasks/task.h"

namespace dp {

struct WordProblemOptions {
  static constexpr const char* kName = "word-problem";
  static constexpr const char* kHelp =
      "which element of a group is the product of all elements so far?";

  std::string group = "S3";  // as FiniteGroup::parse has it
  int64_t max_moved = 0;     // input only permutations that move at most so many points; 0: all
  int64_t tokens_per_element = 1;  // P, see below
  bool most_moved_first = false;   // order of the letters, see WordProblem::letters()

  Settings settings();
  std::string describe() const { return group; }
  std::shared_ptr<const Task> make_task() const;
};

/// Input x_1 .. x_L, each drawn from the alphabet with equal probability; targets y_t = x_t * y_{t-1}
/// with y_0 the identity, that is x_t ... x_1: new elements multiply from the left, the last one acts
/// last. L is the length of the task.
///
///   tokens    BOS  x_1  x_2  ...  x_L        an element g of the group is token g, BOS follows them
///   targets    -   y_1  y_2  ...  y_L        - is kNothingAsked: BOS only starts the state
///
/// max_moved restricts the alphabet to permutations that leave all but so many points in place, the
/// identity among them; one with n_h Householder factors can be a permutation of at most n_h + 1 points.
/// Tokens keep their numbers and targets are of the whole group, so models trained with different
/// alphabets of one group can follow each other.
///
/// tokens_per_element spreads each element g over P tokens, (g,1) .. (g,P), P numbers of its own for
/// each element, and the answer is due at the last. A model then has P times the factors per element,
/// the way a single Householder factor per token can be any permutation of P + 1 points:
///
///   tokens    BOS (x_1,1) (x_1,2) (x_1,3) (x_2,1) ...      (g,p) is token (p-1) * order + g
///   targets    -     -       -      y_1      -    ...
///
/// Sequences are divided among splits as random_stream.h says, by their elements alone: a test is
/// disjoint from training even if that had another alphabet or another P, as long as alphabet and length
/// make a space that is divided.
class WordProblem final : public SequenceTask {
 public:
  /// Throws InputError that names the option and its range.
  explicit WordProblem(const WordProblemOptions& options);

  const WordProblemOptions& options() const { return options_; }
  const FiniteGroup& group() const { return group_; }
  /// The elements that inputs consist of, ascending.
  std::span<const int32_t> alphabet() const { return alphabet_; }
  /// The same in the order in which a curriculum brings them: first some that generate all the others,
  /// then the rest, both by how many points they move. Those that move the least are the simplest and fit
  /// every representation of the group; those that move the most leave a model with few Householder
  /// factors only a representation that can hold all: with n_h = 2, the 3-cycles of A5 fit four
  /// dimensions, where a 5-cycle would take four reflections, and the 5-cycles only three.
  std::span<const int32_t> letters() const { return letters_; }
  /// The elements that targets can be: the subgroup that the alphabet generates, ascending.
  std::span<const int32_t> answers() const { return answers_; }

  double chance() const override { return 1.0 / static_cast<double>(answers_.size()); }
  int64_t num_letters() const override { return static_cast<int64_t>(alphabet_.size()); }
  int64_t vocab_size() const override { return bos() + 1; }
  int64_t bos() const { return options_.tokens_per_element * group_.order(); }
  /// Part p, from 0 on, of an element.
  int64_t token(int32_t element, int64_t part = 0) const { return part * group_.order() + element; }
  /// "BOS", "(1 2 3)", or with its part, "(1 2 3)/2".
  std::string token_name(int64_t token) const;

  int64_t num_tokens(int64_t length) const override {
    return 1 + length * options_.tokens_per_element;
  }
  bool splits_are_disjoint(int64_t length) const override;

 protected:
  void make_sequence(const SequenceKey& key, int64_t* tokens, int64_t* targets) const override;

 private:
  WordProblemOptions options_;
  FiniteGroup group_;
  std::vector<int32_t> alphabet_, letters_, answers_;
};

}  // namespace dp
