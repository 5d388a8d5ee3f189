// Where the first levels of a cascade can be, and which states of the automaton are possible there.
#pragma once
#include <cstdint>
#include <vector>

#include "algebra/automaton.h"

namespace dp {

/// One prefix that occurs, with the states of the automaton that occur together with it.
struct Place {
  int32_t prefix = 0;
  std::vector<int32_t> states;  // ascending
  std::vector<int32_t> next;    // [symbols]: which place follows
};

/// All places; the first is that of the start.
class Places {
 public:
  /// One place, with all states that words lead to: what is known before the first level.
  explicit Places(const Automaton& automaton);
  /// The given places, whose `states` are found here: those that words lead to together with the place.
  /// States must all be among those of the place in `coarse` that each refines.
  Places(const Places& coarse, std::vector<Place> places, const std::vector<int32_t>& refined);

  size_t size() const { return places_.size(); }
  const Place& operator[](size_t place) const { return places_[place]; }
  const Automaton& automaton() const { return *automaton_; }
  size_t next(size_t place, size_t symbol) const {
    return static_cast<size_t>(places_[place].next[symbol]);
  }
  /// Where the symbol leads the states of a place, as positions in the next place's states.
  std::vector<int32_t> targets(size_t place, size_t symbol) const;
  size_t most_states() const;
  /// How many states all places have together.
  size_t total_states() const;
  int32_t position(size_t place, int32_t state) const;

 private:
  const Automaton* automaton_;
  std::vector<Place> places_;
};

/// Whether all of `targets` differ, or all are the same.
bool all_differ(const std::vector<int32_t>& targets);
bool all_same(const std::vector<int32_t>& targets);

/// Whether the symbol maps the states of a place one to one onto those of the next.
bool fills_next(const Places& places, size_t place, size_t symbol);

/// Places with the same states, and those that such symbols lead to and back from, make a component.
struct PlaceComponents {
  std::vector<std::vector<size_t>> same_states;  // places, for each set of states
  std::vector<size_t> set_of;                    // [places]: which of these
  std::vector<size_t> of_set;                    // [sets]: the component
  size_t count = 0;                              // numbered so that symbols that fill lead upwards

  explicit PlaceComponents(const Places& places);
  size_t of(size_t place) const { return of_set[set_of[place]]; }
};

/// labels[place][i] is the point 0 .. points-1 that stands for the place's state i; the same for places with
/// the same states. Points are carried along the moves that do not merge states, so that within a component
/// such moves are as often the identity as they can be: what remains is a group of the automaton's monoid.
std::vector<std::vector<int32_t>> label_states(const Places& places,
                                               const PlaceComponents& components, size_t points);

}  // namespace dp
