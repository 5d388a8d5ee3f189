#include "algebra/cascade_blocks.h"

#include <map>
#include <numeric>
#include <optional>

namespace dp {
namespace {

/// Blocks of states, all of one size, that permutations map onto one another.
struct BlockSystem {
  int32_t count = 0, size = 0;
  std::vector<int32_t> block, place;  // of each state
};

/// The finest such blocks in which two states are together (Atkinson 1975): joins what must be joined.
class JoinedStates {
 public:
  explicit JoinedStates(size_t n) : parent_(n) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }

  size_t find(size_t state) {
    while (parent_[state] != state) state = parent_[state] = parent_[parent_[state]];
    return state;
  }
  void join(size_t a, size_t b, const std::vector<const StateMap*>& permutations) {
    std::vector<std::pair<size_t, size_t>> pending = {{a, b}};
    while (!pending.empty()) {
      const auto [x, y] = pending.back();
      pending.pop_back();
      if (find(x) == find(y)) continue;
      parent_[find(x)] = find(y);
      for (const StateMap* map : permutations)
        pending.emplace_back(static_cast<size_t>((*map)[x]), static_cast<size_t>((*map)[y]));
    }
  }

 private:
  std::vector<size_t> parent_;
};

/// Places are carried from block to block, so that permutations keep them where they can.
std::optional<BlockSystem> label_blocks(JoinedStates& joined, size_t n,
                                        const std::vector<const StateMap*>& permutations) {
  BlockSystem system;
  std::map<size_t, int32_t> numbers;
  std::vector<std::vector<size_t>> members;
  for (size_t q = 0; q < n; ++q) {
    const auto [at, is_new] =
        numbers.try_emplace(joined.find(q), static_cast<int32_t>(members.size()));
    if (is_new) members.emplace_back();
    members[static_cast<size_t>(at->second)].push_back(q);
    system.block.push_back(at->second);
  }
  system.count = static_cast<int32_t>(members.size());
  system.size = static_cast<int32_t>(members.front().size());
  system.place.assign(n, -1);
  std::vector<size_t> queue = {0};
  for (size_t i = 0; i < members[0].size(); ++i)
    system.place[members[0][i]] = static_cast<int32_t>(i);
  for (size_t at = 0; at < queue.size(); ++at)
    for (const StateMap* map : permutations) {
      const auto first = static_cast<size_t>((*map)[members[queue[at]].front()]);
      if (system.place[first] >= 0) continue;
      for (const size_t q : members[queue[at]])
        system.place[static_cast<size_t>((*map)[q])] = system.place[q];
      queue.push_back(static_cast<size_t>(system.block[first]));
    }
  if (queue.size() != members.size()) return std::nullopt;  // not transitive
  return system;
}

/// At most `largest` blocks, and as many of these as possible up to half of that; none if there is no such system.
std::optional<BlockSystem> find_blocks(const Cascade::Level& level, int32_t largest) {
  std::vector<const StateMap*> permutations;
  for (const StateMap& map : level.maps)
    if (is_permutation(map)) permutations.push_back(&map);
  const auto n = static_cast<size_t>(level.size);
  std::optional<BlockSystem> best;
  for (size_t with = 1; with <= n / 2 && with <= 4096; ++with) {
    JoinedStates joined(n);
    joined.join(0, with, permutations);
    size_t blocks = 0;
    for (size_t q = 0; q < n; ++q) blocks += joined.find(q) == q;
    if (blocks == 1 || blocks > static_cast<size_t>(largest) || n % blocks != 0) continue;
    if (best && blocks <= static_cast<size_t>(best->count)) continue;
    if (auto system = label_blocks(joined, n, permutations)) best = std::move(system);
    if (best && best->count * 2 >= largest) break;
  }
  return best;
}

/// A level while it is put together: its maps, each numbered once.
int32_t add_map(Cascade::Level& level, std::map<StateMap, int32_t>& numbers, StateMap map) {
  const auto [at, is_new] = numbers.try_emplace(map, static_cast<int32_t>(level.maps.size()));
  if (is_new) level.maps.push_back(std::move(map));
  return at->second;
}

/// Renames the states of level `index` in everything that comes after it.
void rename_states(Cascade& cascade, size_t index, const std::vector<int32_t>& names) {
  size_t below = 1;  // prefixes of the levels between that one and the one at hand
  const auto n = names.size();
  const auto renamed = [&](auto rows) {
    auto result = rows;
    for (size_t prefix = 0; prefix < rows.size(); ++prefix) {
      const size_t low = prefix % below, state = prefix / below % n, high = prefix / below / n;
      result[(high * n + static_cast<size_t>(names[state])) * below + low] = rows[prefix];
    }
    return result;
  };
  for (size_t j = index + 1; j < cascade.levels.size(); ++j) {
    cascade.levels[j].action = renamed(std::move(cascade.levels[j].action));
    below *= static_cast<size_t>(cascade.levels[j].size);
  }
  cascade.state = renamed(std::move(cascade.state));
}

void split_level(Cascade& cascade, size_t index, const BlockSystem& system) {
  const Cascade::Level level = cascade.levels[index];
  Cascade::Level outer, inner;
  outer.size = system.count, inner.size = system.size;
  outer.start = system.block[static_cast<size_t>(level.start)];
  inner.start = system.place[static_cast<size_t>(level.start)];
  std::map<StateMap, int32_t> outer_numbers, inner_numbers;
  std::vector<int32_t> outer_map;               // of each old map
  std::vector<std::vector<int32_t>> inner_map;  // of each old map and block
  for (const StateMap& map : level.maps) {
    StateMap blocks(static_cast<size_t>(system.count));
    std::vector<StateMap> places(static_cast<size_t>(system.count),
                                 StateMap(static_cast<size_t>(system.size)));
    for (size_t q = 0; q < map.size(); ++q) {
      const auto to = static_cast<size_t>(map[q]);
      const auto block = static_cast<size_t>(system.block[q]);
      blocks[block] = system.block[to];
      places[block][static_cast<size_t>(system.place[q])] = system.place[to];
    }
    outer_map.push_back(add_map(outer, outer_numbers, std::move(blocks)));
    inner_map.emplace_back();
    for (StateMap& place : places)
      inner_map.back().push_back(add_map(inner, inner_numbers, std::move(place)));
  }
  for (const std::vector<int32_t>& row : level.action) {
    outer.action.emplace_back();
    for (const int32_t action : row)
      outer.action.back().push_back(action < 0 ? -1 : outer_map[static_cast<size_t>(action)]);
    for (int32_t block = 0; block < system.count; ++block) {
      inner.action.emplace_back();
      for (const int32_t action : row)
        inner.action.back().push_back(
            action < 0 ? -1 : inner_map[static_cast<size_t>(action)][static_cast<size_t>(block)]);
    }
  }
  std::vector<int32_t> names;
  for (size_t q = 0; q < system.block.size(); ++q)
    names.push_back(system.block[q] * system.size + system.place[q]);
  rename_states(cascade, index, names);
  cascade.levels[index] = std::move(outer);
  cascade.levels.insert(cascade.levels.begin() + static_cast<std::ptrdiff_t>(index) + 1,
                        std::move(inner));
}

}  // namespace

void split_large_levels(Cascade& cascade, int32_t largest) {
  for (size_t i = 0; i < cascade.levels.size(); ++i) {
    if (cascade.levels[i].size <= largest) continue;
    if (const auto system = find_blocks(cascade.levels[i], largest))
      split_level(cascade, i, *system);
  }
}

}  // namespace dp
