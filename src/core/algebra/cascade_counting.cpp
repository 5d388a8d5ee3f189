#include "algebra/cascade_counting.h"

#include <algorithm>

namespace dp {
namespace {

/// The states that words can leave for good.
std::vector<bool> transient_states(const Automaton& automaton) {
  const auto n = automaton.accepting.size();
  std::vector<std::vector<int32_t>> before(n);
  for (const StateMap& map : automaton.moves)
    for (size_t q = 0; q < n; ++q)
      before[static_cast<size_t>(map[q])].push_back(static_cast<int32_t>(q));
  const auto reach = [&](int32_t from, const auto& neighbours) {
    std::vector<bool> seen(n);
    std::vector<int32_t> pending = {from};
    seen[static_cast<size_t>(from)] = true;
    while (!pending.empty()) {
      const int32_t q = pending.back();
      pending.pop_back();
      neighbours(q, [&](int32_t next) {
        if (!seen[static_cast<size_t>(next)]) pending.push_back(next);
        seen[static_cast<size_t>(next)] = true;
      });
    }
    return seen;
  };
  const auto forward = [&](int32_t q, const auto& use) {
    for (const StateMap& map : automaton.moves) use(map[static_cast<size_t>(q)]);
  };
  const auto backward = [&](int32_t q, const auto& use) {
    for (const int32_t next : before[static_cast<size_t>(q)]) use(next);
  };
  // A state is kept for good if all that it leads to lead back; what leads to a known such state and is not led
  // back to is transient.
  std::vector<bool> transient(n, false), known(n, false);
  for (size_t q = 0; q < n; ++q) {
    if (known[q]) continue;
    const std::vector<bool> after = reach(static_cast<int32_t>(q), forward),
                            leading = reach(static_cast<int32_t>(q), backward);
    bool leaves = false;
    for (size_t r = 0; r < n; ++r) leaves = leaves || (after[r] && !leading[r]);
    for (size_t r = 0; r < n; ++r) {
      if (after[r] && leading[r])
        known[r] = true, transient[r] = leaves;  // its component
      else if (leading[r])
        known[r] = true, transient[r] = true;  // what comes before
    }
  }
  return transient;
}

}  // namespace

std::vector<std::vector<int32_t>> countings(const Automaton& automaton) {
  const std::vector<bool> transient = transient_states(automaton);
  const auto size = static_cast<size_t>(std::ranges::count(transient, true));
  std::vector<std::vector<int32_t>> found;
  if (size < 2 || !transient[static_cast<size_t>(automaton.start)]) return found;
  const auto stays = [&](int32_t q) { return transient[static_cast<size_t>(q)]; };
  for (const StateMap& map : automaton.moves) {
    std::vector<bool> entered(transient.size());
    for (size_t q = 0; q < map.size(); ++q)
      if (transient[q] && map[q] != static_cast<int32_t>(q))
        entered[static_cast<size_t>(map[q])] = true;
    for (size_t first = 0; first < map.size(); ++first) {
      if (!transient[first] || entered[first]) continue;
      std::vector<int32_t> number(transient.size(), -1);
      int32_t length = 0;
      for (auto q = static_cast<int32_t>(first); stays(q) && number[static_cast<size_t>(q)] < 0;
           q = map[static_cast<size_t>(q)])
        number[static_cast<size_t>(q)] = length++;
      if (static_cast<size_t>(length) == size) found.push_back(std::move(number));
    }
  }
  const size_t symbols = automaton.moves.size();
  for (size_t counted = 0; counted <= symbols; ++counted) {
    std::vector<int32_t> number(transient.size(), -1), pending = {automaton.start};
    number[static_cast<size_t>(automaton.start)] = 0;
    for (size_t at = 0; at < pending.size(); ++at)
      for (size_t x = 0; x < symbols; ++x) {
        const int32_t next = automaton.next(pending[at], static_cast<int32_t>(x));
        if (!stays(next) || number[static_cast<size_t>(next)] >= 0) continue;
        number[static_cast<size_t>(next)] =
            number[static_cast<size_t>(pending[at])] + (counted == symbols || counted == x);
        pending.push_back(next);
      }
    found.push_back(std::move(number));
  }
  return found;
}

}  // namespace dp
