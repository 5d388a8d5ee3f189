#include "algebra/cascade_places.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace dp {
namespace {

/// Visits what can be reached along `edges` and is not marked yet; appends to `left` as it leaves.
void visit(const std::vector<std::vector<size_t>>& edges, size_t from, std::vector<bool>& marked,
           std::vector<size_t>& left) {
  if (marked[from]) return;
  marked[from] = true;
  std::vector<std::pair<size_t, size_t>> path = {{from, 0}};  // with the next edge to try
  while (!path.empty()) {
    auto& [node, edge] = path.back();
    if (edge == edges[node].size()) {
      left.push_back(node);
      path.pop_back();
      continue;
    }
    const size_t target = edges[node][edge++];
    if (marked[target]) continue;
    marked[target] = true;
    path.emplace_back(target, 0);
  }
}

/// Hands the points of a place on to the next, along a symbol that merges no states; states of the next
/// place that the symbol does not reach get the points left, in order.
std::vector<int32_t> carried(const std::vector<int32_t>& labels,
                             const std::vector<int32_t>& targets, size_t num_states,
                             size_t points) {
  std::vector<int32_t> result(num_states, -1);
  std::vector<bool> taken(points);
  for (size_t i = 0; i < targets.size(); ++i) {
    result[static_cast<size_t>(targets[i])] = labels[i];
    taken[static_cast<size_t>(labels[i])] = true;
  }
  int32_t free_point = 0;
  for (int32_t& label : result) {
    if (label >= 0) continue;
    while (taken[static_cast<size_t>(free_point)]) ++free_point;
    label = free_point++;
  }
  return result;
}

}  // namespace

bool all_differ(const std::vector<int32_t>& targets) {
  std::vector<int32_t> sorted = targets;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

bool all_same(const std::vector<int32_t>& targets) {
  return std::ranges::all_of(targets, [&](int32_t target) { return target == targets.front(); });
}

Places::Places(const Automaton& automaton) : automaton_(&automaton), places_(1) {
  places_[0].next.assign(automaton.alphabet.size(), 0);
  std::set<int32_t> seen = {automaton.start};
  std::vector<int32_t> pending = {automaton.start};
  while (!pending.empty()) {
    const int32_t state = pending.back();
    pending.pop_back();
    for (const StateMap& map : automaton.moves)
      if (seen.insert(map[static_cast<size_t>(state)]).second)
        pending.push_back(map[static_cast<size_t>(state)]);
  }
  places_[0].states.assign(seen.begin(), seen.end());
}

Places::Places(const Places& coarse, std::vector<Place> places, const std::vector<int32_t>& refined)
    : automaton_(coarse.automaton_), places_(std::move(places)) {
  std::vector<std::vector<bool>> seen(size());
  for (size_t i = 0; i < size(); ++i)
    seen[i].resize(coarse[static_cast<size_t>(refined[i])].states.size());
  std::vector<std::pair<size_t, int32_t>> pending;
  const auto reach = [&](size_t place, int32_t state) {
    const auto position =
        static_cast<size_t>(coarse.position(static_cast<size_t>(refined[place]), state));
    if (seen[place][position]) return;
    seen[place][position] = true;
    pending.emplace_back(place, state);
  };
  reach(0, automaton_->start);
  while (!pending.empty()) {
    const auto [place, state] = pending.back();
    pending.pop_back();
    for (size_t symbol = 0; symbol < automaton_->moves.size(); ++symbol)
      reach(next(place, symbol), automaton_->next(state, static_cast<int32_t>(symbol)));
  }
  for (size_t i = 0; i < size(); ++i) {
    const std::vector<int32_t>& states = coarse[static_cast<size_t>(refined[i])].states;
    for (size_t j = 0; j < states.size(); ++j)
      if (seen[i][j]) places_[i].states.push_back(states[j]);
  }
}

int32_t Places::position(size_t place, int32_t state) const {
  const std::vector<int32_t>& states = places_[place].states;
  return static_cast<int32_t>(std::ranges::lower_bound(states, state) - states.begin());
}

std::vector<int32_t> Places::targets(size_t place, size_t symbol) const {
  std::vector<int32_t> result;
  result.reserve(places_[place].states.size());
  for (const int32_t state : places_[place].states)
    result.push_back(
        position(next(place, symbol), automaton_->next(state, static_cast<int32_t>(symbol))));
  return result;
}

size_t Places::most_states() const {
  size_t most = 0;
  for (const Place& place : places_) most = std::max(most, place.states.size());
  return most;
}

size_t Places::total_states() const {
  size_t total = 0;
  for (const Place& place : places_) total += place.states.size();
  return total;
}

bool fills_next(const Places& places, size_t place, size_t symbol) {
  return places[place].states.size() == places[places.next(place, symbol)].states.size() &&
         all_differ(places.targets(place, symbol));
}

// Kosaraju: in the order opposite to that in which a walk leaves them, the sets from which one can come to a
// set, and that are in no earlier component, make its component.
PlaceComponents::PlaceComponents(const Places& places) : set_of(places.size()) {
  std::map<std::vector<int32_t>, size_t> numbers;
  for (size_t place = 0; place < places.size(); ++place) {
    set_of[place] = numbers.try_emplace(places[place].states, same_states.size()).first->second;
    if (set_of[place] == same_states.size()) same_states.emplace_back();
    same_states[set_of[place]].push_back(place);
  }
  std::vector<std::vector<size_t>> forth(same_states.size()), back(same_states.size());
  for (size_t place = 0; place < places.size(); ++place) {
    for (size_t symbol = 0; symbol < places[place].next.size(); ++symbol) {
      if (!fills_next(places, place, symbol)) continue;
      const size_t next = places.next(place, symbol);
      forth[set_of[place]].push_back(set_of[next]);
      back[set_of[next]].push_back(set_of[place]);
    }
  }
  std::vector<bool> marked(same_states.size());
  std::vector<size_t> left;
  for (size_t set = 0; set < same_states.size(); ++set) visit(forth, set, marked, left);
  marked.assign(same_states.size(), false);
  of_set.resize(same_states.size());
  std::ranges::reverse(left);
  for (const size_t set : left) {
    if (marked[set]) continue;
    std::vector<size_t> members;
    visit(back, set, marked, members);
    for (const size_t member : members) of_set[member] = count;
    ++count;
  }
}

std::vector<std::vector<int32_t>> label_states(const Places& places,
                                               const PlaceComponents& components, size_t points) {
  const size_t num_sets = components.same_states.size();
  std::vector<std::vector<int32_t>> labels(num_sets);
  std::vector<size_t> order(num_sets);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t set) { return components.of_set[set]; });
  // The place and symbol of the first move found into each component that merges no states.
  std::vector<std::optional<std::pair<size_t, size_t>>> entries(components.count);
  for (const size_t first : order) {
    const size_t component = components.of_set[first];
    if (!labels[first].empty()) continue;  // with the component's first set
    std::vector<size_t> pending;
    const auto carry = [&](size_t place, size_t symbol) {
      const size_t next = places.next(place, symbol), set = components.set_of[next];
      if (!labels[set].empty()) return;
      labels[set] = carried(labels[components.set_of[place]], places.targets(place, symbol),
                            places[next].states.size(), points);
      pending.push_back(set);
    };
    if (entries[component]) {
      carry(entries[component]->first, entries[component]->second);
    } else {
      labels[first].resize(places[components.same_states[first].front()].states.size());
      std::iota(labels[first].begin(), labels[first].end(), 0);
      pending.push_back(first);
    }
    while (!pending.empty()) {
      const size_t set = pending.back();
      pending.pop_back();
      for (const size_t place : components.same_states[set]) {
        for (size_t symbol = 0; symbol < places[place].next.size(); ++symbol) {
          const size_t next = places.next(place, symbol), target = components.of(next);
          if (target == component) {
            if (fills_next(places, place, symbol)) carry(place, symbol);
          } else if (!entries[target] && labels[components.set_of[next]].empty() &&
                     all_differ(places.targets(place, symbol))) {
            entries[target] = {place, symbol};
          }
        }
      }
    }
  }
  std::vector<std::vector<int32_t>> result;
  for (size_t place = 0; place < places.size(); ++place)
    result.push_back(labels[components.set_of[place]]);
  return result;
}

}  // namespace dp
