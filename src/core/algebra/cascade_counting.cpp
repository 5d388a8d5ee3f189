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

/// Which states a level may count along; the others wait, for good or until something leads out of them.
std::vector<std::vector<bool>> counted_states(const Automaton& automaton) {
  const size_t n = automaton.accepting.size();
  std::vector<bool> waits(n), saturates(n);  // every symbol keeps it or is a reset; some symbol leads there and keeps it
  for (size_t q = 0; q < n; ++q) {
    const auto keeps = [&](const StateMap& map) { return map[q] == static_cast<int32_t>(q); };
    waits[q] = std::ranges::all_of(
        automaton.moves, [&](const StateMap& map) { return keeps(map) || is_reset(map); });
    saturates[q] = std::ranges::any_of(automaton.moves, [&](const StateMap& map) {
      return keeps(map) && std::ranges::count(map, static_cast<int32_t>(q)) > 1;
    });
  }
  std::vector<std::vector<bool>> found = {transient_states(automaton), std::vector<bool>(n, true),
                                          std::vector<bool>(n, true)};
  for (size_t q = 0; q < n; ++q) {
    if (waits[q]) found[0][q] = found[1][q] = false;
    if (saturates[q]) found[2][q] = false;
  }
  return found;
}

/// How many more times the symbol can occur before states repeat: 0 on its cycles.
std::vector<int32_t> steps_to_cycle(const StateMap& map) {
  std::vector<int32_t> steps(map.size(), -1);
  for (size_t first = 0; first < map.size(); ++first) {
    std::vector<size_t> path;
    size_t q = first;
    for (; steps[q] == -1; q = static_cast<size_t>(map[q])) steps[q] = -2, path.push_back(q);
    if (steps[q] == -2) {  // the path ends in a cycle of its own
      const auto cycle = std::ranges::find(path, q);
      for (auto at = cycle; at != path.end(); ++at) steps[*at] = 0;
      path.erase(cycle, path.end());
    }
    int32_t count = steps[q];
    while (!path.empty()) steps[path.back()] = ++count, path.pop_back();
  }
  return steps;
}

/// a{20}: how many of its letters are left.
std::vector<int32_t> number_along(const StateMap& map, const std::vector<bool>& counted,
                                  bool longest) {
  const std::vector<int32_t> steps = steps_to_cycle(map);
  const int32_t most = *std::ranges::max_element(steps);
  std::vector<int32_t> number(steps.size(), -1);
  for (size_t first = 0; first < steps.size(); ++first) {
    if (longest && steps[first] < most) continue;  // what follows the others does not count
    for (size_t q = first; counted[q] && steps[q] > 0 && number[q] < 0;
         q = static_cast<size_t>(map[q]))
      number[q] = most - steps[q];
  }
  return number;
}

/// How often a symbol occurs in the first words that lead there, or any if it is none of them.
std::vector<int32_t> number_by_words(const Automaton& automaton, const std::vector<bool>& counted,
                                     size_t symbol) {
  const auto start = static_cast<size_t>(automaton.start);
  std::vector<int32_t> number(counted.size(), -1), pending = {automaton.start};
  number[start] = 0;
  for (size_t at = 0; at < pending.size(); ++at)
    for (size_t x = 0; x < automaton.moves.size(); ++x) {
      const int32_t next = automaton.next(pending[at], static_cast<int32_t>(x));
      if (!counted[static_cast<size_t>(next)] || number[static_cast<size_t>(next)] >= 0) continue;
      number[static_cast<size_t>(next)] = number[static_cast<size_t>(pending[at])] +
                                          (symbol == automaton.moves.size() || symbol == x);
      pending.push_back(next);
    }
  if (!counted[start]) number[start] = -1;
  return number;
}

}  // namespace

std::vector<std::vector<int32_t>> countings(const Automaton& automaton) {
  std::vector<std::vector<int32_t>> found;
  const auto add = [&](std::vector<int32_t> number) {
    if (std::ranges::find(found, number) == found.end()) found.push_back(std::move(number));
  };
  for (const std::vector<bool>& counted : counted_states(automaton)) {
    for (const bool longest : {false, true})
      for (const StateMap& map : automaton.moves) add(number_along(map, counted, longest));
    for (size_t x = 0; x <= automaton.moves.size(); ++x)
      add(number_by_words(automaton, counted, x));
  }
  return found;
}

std::optional<StateMap> counter_map(const StateMap& map, const std::vector<int32_t>& states,
                                    const std::vector<int32_t>& number, size_t size) {
  const auto modulus = static_cast<int64_t>(size);
  std::optional<int64_t> shift, target, entry;  // entry: where states that do not care lead
  bool shifts = true, resets = true, entries = true;
  for (const int32_t q : states) {
    const int64_t from = number[static_cast<size_t>(q)],
                  to = number[static_cast<size_t>(map[static_cast<size_t>(q)])];
    if (to < 0) continue;
    if (from < 0) {
      entries = entries && entry.value_or(to) == to, entry = to;
      continue;
    }
    const int64_t by = (to - from + modulus) % modulus;
    shifts = shifts && shift.value_or(by) == by, resets = resets && target.value_or(to) == to;
    shift = by, target = to;
  }
  if (shift && !shifts && !resets) return std::nullopt;
  if (!target) target = entry, shifts = !target;
  const bool enters = entry && entries && entry == target;  // a reset serves these, too
  StateMap counter(size);
  const bool adds = shifts && !(resets && (enters || shift.value_or(0) != 0));
  for (size_t i = 0; i < size; ++i)
    counter[i] = static_cast<int32_t>(
        adds ? (static_cast<int64_t>(i) + shift.value_or(0)) % modulus : *target);
  return counter;
}

}  // namespace dp
