// The transition monoid of an automaton: all that words do to its states.
#pragma once
#include <cstdint>
#include <vector>

#include "algebra/automaton.h"

namespace dp {

/// The maps of all words, in the order of the first word (shorter first, then by symbols) that gives
/// each; element 0 is the identity, of the empty word.
class TransitionMonoid {
 public:
  static constexpr int64_t kMaxElements = 100'000;

  /// Throws InputError if there are more than `limit` elements, or so many that their maps would take
  /// more than a quarter of a gigabyte.
  explicit TransitionMonoid(const Automaton& automaton, int64_t limit = kMaxElements);

  int32_t order() const { return static_cast<int32_t>(maps_.size()); }
  const StateMap& map(int32_t element) const { return maps_[static_cast<size_t>(element)]; }
  /// The first of the shortest words that give the element.
  std::vector<int32_t> word(int32_t element) const;

  /// Whether every element has an inverse; the symbols are permutations then.
  bool is_group() const;
  /// Whether no element but trivial ones repeats with a period: each has a power that equals the next.
  /// By Schuetzenberger, the languages of such automata are the star-free ones.
  bool is_aperiodic() const;

 private:
  // Words can be as long as there are elements, so each is kept as its last symbol after another's.
  struct Step {
    int32_t before, symbol;
  };
  std::vector<StateMap> maps_;
  std::vector<Step> steps_;
};

}  // namespace dp
