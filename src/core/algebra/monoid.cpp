#include "algebra/monoid.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"

namespace dp {
namespace {

constexpr int64_t kMaxEntries = int64_t{1} << 26;  // of all maps together

/// Whether the powers map, map^2, ... end in one that stays, and not in a longer cycle: every cycle of
/// the map must be a single state.
bool powers_settle(const StateMap& map) {
  std::vector<size_t> walk_of(map.size(), map.size());  // the walk that came by first
  for (size_t walk = 0; walk < map.size(); ++walk) {
    size_t state = walk;
    for (; walk_of[state] == map.size(); state = static_cast<size_t>(map[state]))
      walk_of[state] = walk;
    const bool is_cycle = walk_of[state] == walk;
    if (is_cycle && static_cast<size_t>(map[state]) != state) return false;
  }
  return true;
}

}  // namespace

TransitionMonoid::TransitionMonoid(const Automaton& automaton, int64_t limit) {
  check(automaton);
  StateMap identity(automaton.accepting.size());
  std::iota(identity.begin(), identity.end(), 0);
  maps_.push_back(std::move(identity));
  steps_.push_back({-1, -1});
  const auto before = [this](int32_t a, int32_t b) { return map(a) < map(b); };
  std::set<int32_t, decltype(before)> seen({0}, before);
  for (int32_t element = 0; element < order(); ++element) {
    for (int32_t symbol = 0; symbol < automaton.num_symbols(); ++symbol) {
      maps_.push_back(compose(automaton.moves[static_cast<size_t>(symbol)], map(element)));
      if (!seen.insert(order() - 1).second) {
        maps_.pop_back();
        continue;
      }
      steps_.push_back({element, symbol});
      if (order() > limit || int64_t{order()} * automaton.num_states() > kMaxEntries)
        throw InputError("transition monoid: expected at most " +
                         std::to_string(std::min(limit, kMaxEntries / automaton.num_states())) +
                         " elements for an automaton of " + std::to_string(automaton.num_states()) +
                         " states, found more");
    }
  }
}

std::vector<int32_t> TransitionMonoid::word(int32_t element) const {
  std::vector<int32_t> word;
  for (; element != 0; element = steps_[static_cast<size_t>(element)].before)
    word.push_back(steps_[static_cast<size_t>(element)].symbol);
  std::ranges::reverse(word);
  return word;
}

bool TransitionMonoid::is_group() const { return std::ranges::all_of(maps_, is_permutation); }

bool TransitionMonoid::is_aperiodic() const { return std::ranges::all_of(maps_, powers_settle); }

}  // namespace dp
