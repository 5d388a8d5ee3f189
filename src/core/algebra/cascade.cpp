// A level of the cascade tells a set, a tile, in which the automaton's state lies. Places (prefixes that
// occur, with the states that are possible there) that have the most states are refined: a symbol that maps
// the states of a place one to one onto those of the next permutes tiles; any other resets to a tile that
// holds its image, which is smaller than the place. So sets shrink from level to level, until a last level
// can tell the state itself. Zeiger's tiles, all states but one, always do; the images themselves often
// need fewer levels.
#include "algebra/cascade.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "algebra/cascade_blocks.h"
#include "algebra/cascade_counting.h"
#include "algebra/cascade_places.h"
#include "algebra/cascade_tiles.h"
#include "base/error.h"

namespace dp {
namespace {

constexpr size_t kMaxPrefixes = 1'000'000;
constexpr size_t kMaxMoves = 3'000'000;  // states times symbols, over all places
constexpr size_t kManyPrefixes = 4096;   // beyond which a level that counts is tried
constexpr int32_t kLargestLevel = 8;     // beyond which levels are split where that is possible

bool is_identity(const StateMap& map) {
  for (size_t i = 0; i < map.size(); ++i)
    if (map[i] != static_cast<int32_t>(i)) return false;
  return true;
}

/// A map of 0 .. size-1 that is an identity, a reset or a permutation and leads from each first to its
/// second: the permutation with the fewest moved points. None if that cannot be.
std::optional<StateMap> completed(const std::vector<std::pair<int32_t, int32_t>>& moves,
                                  size_t size) {
  StateMap map(size);
  std::iota(map.begin(), map.end(), 0);
  if (std::ranges::all_of(moves, [](const auto& move) { return move.first == move.second; }))
    return map;
  const int32_t target = moves.front().second;
  if (std::ranges::all_of(moves, [&](const auto& move) { return move.second == target; }))
    return StateMap(size, target);
  std::vector<int32_t> from(size, -1), to(size, -1);
  for (const auto& [first, second] : moves) {
    if (from[static_cast<size_t>(second)] >= 0) return std::nullopt;
    from[static_cast<size_t>(second)] = first;
    to[static_cast<size_t>(first)] = second;
  }
  for (size_t i = 0; i < size; ++i) {
    if (to[i] >= 0) {
      map[i] = to[i];
    } else if (from[i] >= 0) {  // the end of a chain goes to its beginning
      auto first = static_cast<int32_t>(i);
      while (from[static_cast<size_t>(first)] >= 0) first = from[static_cast<size_t>(first)];
      map[i] = first;
    }
  }
  return map;
}

/// A level while it is made: its maps, each numbered once.
class LevelMaker {
 public:
  LevelMaker(size_t size, int32_t start, size_t num_prefixes, size_t num_symbols) {
    level_.size = static_cast<int32_t>(size);
    level_.start = start;
    level_.action.assign(num_prefixes, std::vector<int32_t>(num_symbols, -1));
  }
  void set(int32_t prefix, size_t symbol, const StateMap& map) {
    const auto [found, is_new] =
        numbers_.try_emplace(map, static_cast<int32_t>(level_.maps.size()));
    if (is_new) level_.maps.push_back(map);
    level_.action[static_cast<size_t>(prefix)][symbol] = found->second;
  }
  Cascade::Level take() { return std::move(level_); }

 private:
  Cascade::Level level_;
  std::map<StateMap, int32_t> numbers_;
};

class CascadeMaker {
 public:
  CascadeMaker(const Automaton& automaton, TileStrategy strategy)
      : automaton_(automaton), strategy_(strategy), places_(automaton) {}

  /// The same, with a first level that counts as `number` does; none if it cannot.
  std::optional<Cascade> run_counting(const std::vector<int32_t>& number) {
    if (!count(number)) return std::nullopt;
    return run();
  }

  /// The same, for a counter of which each symbol may know the one before it.
  std::optional<Cascade> run_counting_runs(const std::vector<int32_t>& number) {
    if (!remember_symbol() || !count(number)) return std::nullopt;
    return run();
  }

  /// None if that would be too large.
  std::optional<Cascade> run() {
    while (places_.most_states() > 1 && !finish())
      if (!refine()) return std::nullopt;
    if (cascade_.state.empty()) {  // every place has one state
      cascade_.state.assign(num_prefixes_, -1);
      for (size_t place = 0; place < places_.size(); ++place)
        cascade_.state[static_cast<size_t>(places_[place].prefix)] = places_[place].states.front();
    }
    return std::move(cascade_);
  }

 private:
  size_t num_symbols() const { return automaton_.moves.size(); }
  bool too_large() const {
    return num_prefixes_ > kMaxPrefixes || places_.total_states() * num_symbols() > kMaxMoves;
  }

  /// Adds a last level that tells the state, if permutations and resets suffice for it.
  bool finish() {
    for (size_t place = 0; place < places_.size(); ++place) {
      for (size_t symbol = 0; symbol < num_symbols(); ++symbol) {
        const std::vector<int32_t> targets = places_.targets(place, symbol);
        if (!all_same(targets) && !all_differ(targets)) return false;
      }
    }
    const size_t points = places_.most_states();
    if (num_prefixes_ * points > kMaxPrefixes) return false;  // refine() will refuse it
    const PlaceComponents components(places_);
    const auto labels = label_states(places_, components, points);
    LevelMaker level(points, labels[0][static_cast<size_t>(places_.position(0, automaton_.start))],
                     num_prefixes_, num_symbols());
    for (size_t place = 0; place < places_.size(); ++place) {
      for (size_t symbol = 0; symbol < num_symbols(); ++symbol) {
        const size_t next = places_.next(place, symbol);
        const std::vector<int32_t> targets = places_.targets(place, symbol);
        std::vector<std::pair<int32_t, int32_t>> moves;
        for (size_t i = 0; i < targets.size(); ++i)
          moves.emplace_back(labels[place][i], labels[next][static_cast<size_t>(targets[i])]);
        const StateMap map = *completed(moves, points);
        if (!strategy_.permute_between_components && components.of(place) != components.of(next) &&
            !is_identity(map) && !is_reset(map))
          return false;
        level.set(places_[place].prefix, symbol, map);
      }
    }
    cascade_.state.assign(num_prefixes_ * points, -1);
    for (size_t place = 0; place < places_.size(); ++place)
      for (size_t i = 0; i < labels[place].size(); ++i)
        cascade_.state[static_cast<size_t>(places_[place].prefix) * points +
                       static_cast<size_t>(labels[place][i])] = places_[place].states[i];
    cascade_.levels.push_back(level.take());
    return true;
  }

  bool refine();
  bool count(const std::vector<int32_t>& number);
  bool remember_symbol();
  std::vector<std::vector<StateMap>> counter_maps(const std::vector<int32_t>& number,
                                                  size_t size) const;
  bool add_free_level(size_t size, int32_t start, const std::vector<std::vector<StateMap>>& maps);

  const Automaton& automaton_;
  const TileStrategy strategy_;
  Places places_;
  size_t num_prefixes_ = 1;
  Cascade cascade_;
};

/// Adds a level of tiles; false if that would be too large. Some place loses states by it: one that is
/// refined had all its points, and none of its tiles has.
bool CascadeMaker::refine() {
  const TileMoves tile_moves(places_, strategy_);
  std::vector<Tile> tiles;  // by number; the empty one shares the number of the first
  std::map<Tile, int32_t> tile_numbers;
  const auto tile_number = [&](const Tile& tile) {
    if (tile.empty()) return 0;
    const auto [found, is_new] = tile_numbers.try_emplace(tile, static_cast<int32_t>(tiles.size()));
    if (is_new) tiles.push_back(tile);
    return found->second;
  };
  // Pairs of a place and a tile are the new places.
  std::vector<Place> refined;
  std::vector<int32_t> place_of, tile_of;
  std::map<std::pair<int32_t, int32_t>, int32_t> pair_numbers;
  const auto reach = [&](int32_t place, int32_t tile) {
    const auto [found, is_new] =
        pair_numbers.try_emplace({place, tile}, static_cast<int32_t>(refined.size()));
    if (is_new) {
      refined.emplace_back();
      place_of.push_back(place);
      tile_of.push_back(tile);
    }
    return found->second;
  };
  const int32_t start = tile_number(tile_moves.start());
  reach(0, start);
  size_t num_moves = 0;
  for (size_t i = 0; i < refined.size(); ++i) {
    const auto place = static_cast<size_t>(place_of[i]);
    num_moves += places_[place].states.size() * num_symbols();
    if (refined.size() > kMaxPrefixes || num_moves > kMaxMoves) return false;
    for (size_t symbol = 0; symbol < num_symbols(); ++symbol) {
      // A place that is not refined may stand before the first tile; what it has does not matter.
      const Tile tile = tiles.empty() ? Tile{} : tiles[static_cast<size_t>(tile_of[i])];
      const int32_t next_tile = tile_number(tile_moves.next(place, symbol, tile));
      const int32_t next = reach(places_[place].next[symbol], next_tile);
      refined[i].next.push_back(next);
    }
  }
  if (num_prefixes_ * tiles.size() > kMaxPrefixes) return false;
  std::vector<std::vector<size_t>> pairs_of(places_.size());
  for (size_t i = 0; i < refined.size(); ++i) {
    const auto place = static_cast<size_t>(place_of[i]);
    refined[i].prefix = places_[place].prefix * static_cast<int32_t>(tiles.size()) + tile_of[i];
    pairs_of[place].push_back(i);
  }
  LevelMaker level(tiles.size(), start, num_prefixes_, num_symbols());
  for (size_t place = 0; place < places_.size(); ++place) {
    for (size_t symbol = 0; symbol < num_symbols(); ++symbol) {
      std::vector<std::pair<int32_t, int32_t>> moves;
      for (const size_t i : pairs_of[place])
        moves.emplace_back(tile_of[i], tile_of[static_cast<size_t>(refined[i].next[symbol])]);
      level.set(places_[place].prefix, symbol, *completed(moves, tiles.size()));
    }
  }
  cascade_.levels.push_back(level.take());
  num_prefixes_ *= tiles.size();
  places_ = Places(places_, std::move(refined), place_of);
  return !too_large();
}

bool splits_into_small_levels(size_t size) {
  for (size_t factor = 2; factor <= static_cast<size_t>(kLargestLevel); ++factor)
    while (size % factor == 0) size /= factor;
  return size == 1;
}

/// [place][symbol]; empty if there is none for some.
std::vector<std::vector<StateMap>> CascadeMaker::counter_maps(const std::vector<int32_t>& number,
                                                              size_t size) const {
  std::vector<std::vector<StateMap>> maps(places_.size());
  for (size_t place = 0; place < places_.size(); ++place)
    for (const StateMap& map : automaton_.moves) {
      auto counter = counter_map(map, places_[place].states, number, size);
      if (!counter) return {};
      maps[place].push_back(*std::move(counter));
    }
  return maps;
}

/// Adds a level that counts along some states, as if the others never were: state i of a{20} after i
/// letters, modulo 32. For that each symbol must add a constant to their numbers or lead to one. What remains to be
/// told is whether the state is one of the others, and which of those with the same number.
bool CascadeMaker::count(const std::vector<int32_t>& number) {
  const auto count = static_cast<size_t>(*std::ranges::max_element(number)) + 1;
  if (count < 2) return false;
  // A power of 2 where it must be split, unless only counting modulo `count` adds up.
  size_t size = count;
  if (size > static_cast<size_t>(kLargestLevel)) size = std::bit_ceil(size);
  std::vector<std::vector<StateMap>> maps = counter_maps(number, size);
  if (maps.empty() && splits_into_small_levels(count)) maps = counter_maps(number, size = count);
  if (maps.empty()) return false;
  const int32_t start = std::max(0, number[static_cast<size_t>(automaton_.start)]);
  return add_free_level(size, start, maps);
}

/// Adds a level that knows the last symbol; 0 before there is one.
bool CascadeMaker::remember_symbol() {
  std::vector<StateMap> resets;
  for (size_t x = 0; x < num_symbols(); ++x)
    resets.emplace_back(num_symbols(), static_cast<int32_t>(x));
  return add_free_level(num_symbols(), 0,
                        std::vector<std::vector<StateMap>>(places_.size(), resets));
}

/// Adds a level whose states mean what they will: which states of the automaton occur together with them is found
/// out here. maps[place][symbol]
bool CascadeMaker::add_free_level(size_t size, int32_t start,
                                  const std::vector<std::vector<StateMap>>& maps) {
  if (num_prefixes_ * size > kMaxPrefixes) return false;
  LevelMaker level(size, start, num_prefixes_, num_symbols());
  for (size_t place = 0; place < places_.size(); ++place)
    for (size_t x = 0; x < num_symbols(); ++x)
      level.set(places_[place].prefix, x, maps[place][x]);
  std::vector<Place> pairs;  // of a place and a state of the level
  std::vector<int32_t> place_of, point_of;
  std::map<std::pair<int32_t, int32_t>, int32_t> pair_numbers;
  const auto reach = [&](int32_t place, int32_t point) {
    const auto [found, is_new] =
        pair_numbers.try_emplace({place, point}, static_cast<int32_t>(pairs.size()));
    if (is_new) {
      pairs.emplace_back();
      pairs.back().prefix =
          places_[static_cast<size_t>(place)].prefix * static_cast<int32_t>(size) + point;
      place_of.push_back(place), point_of.push_back(point);
    }
    return found->second;
  };
  reach(0, start);
  for (size_t at = 0; at < pairs.size(); ++at)
    for (size_t x = 0; x < num_symbols(); ++x) {
      const auto place = static_cast<size_t>(place_of[at]);
      const int32_t next =
          reach(places_[place].next[x], maps[place][x][static_cast<size_t>(point_of[at])]);
      pairs[at].next.push_back(next);
    }
  cascade_.levels.push_back(level.take());
  num_prefixes_ *= size;
  places_ = Places(places_, std::move(pairs), place_of);
  return !too_large();
}

/// How many transpositions, which reflections can be, it takes to make the permutation.
int64_t num_transpositions(const StateMap& permutation) {
  int64_t count = 0;
  std::vector<bool> seen(permutation.size());
  for (size_t first = 0; first < permutation.size(); ++first) {
    for (size_t i = first; !seen[i]; i = static_cast<size_t>(permutation[i])) {
      seen[i] = true;
      count += static_cast<size_t>(permutation[i]) != first;
    }
  }
  return count;
}

/// Smaller is better: a level that permutes although the monoid has no groups would be absurd; then each
/// level is a layer, and takes as many reflections as its worst permutation; then prefixes.
std::tuple<bool, int64_t, size_t> cost(const Cascade& cascade) {
  int64_t reflections = 0;
  for (const Cascade::Level& level : cascade.levels) {
    int64_t most = 0;
    for (const StateMap& map : level.maps)
      if (is_permutation(map)) most = std::max(most, num_transpositions(map));
    reflections += most;
  }
  return {reflections > 0, reflections + static_cast<int64_t>(cascade.levels.size()),
          cascade.state.size()};
}

}  // namespace

std::vector<int32_t> Cascade::start() const {
  std::vector<int32_t> states;
  for (const Level& level : levels) states.push_back(level.start);
  return states;
}

void Cascade::step(std::vector<int32_t>& states, int32_t symbol) const {
  size_t prefix = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    const Level& level = levels[i];
    const int32_t action = level.action[prefix][static_cast<size_t>(symbol)];
    if (action < 0)
      throw std::invalid_argument("Cascade: states must be some that occur, got others in level " +
                                  std::to_string(i));
    const auto before = static_cast<size_t>(states[i]);
    prefix = prefix * static_cast<size_t>(level.size) + before;
    states[i] = level.maps[static_cast<size_t>(action)][before];
  }
}

int32_t Cascade::decode(std::span<const int32_t> states) const {
  size_t prefix = 0;
  for (size_t i = 0; i < levels.size(); ++i)
    prefix = prefix * static_cast<size_t>(levels[i].size) + static_cast<size_t>(states[i]);
  return state[prefix];
}

Cascade krohn_rhodes(const Automaton& automaton) {
  check(automaton);
  std::optional<Cascade> best;
  for (const bool permute_between_components : {false, true}) {
    for (const TileRule rule :
         {TileRule::kImages, TileRule::kLargestImages, TileRule::kAllButOne}) {
      auto cascade = CascadeMaker(automaton, {rule, permute_between_components}).run();
      if (cascade && (!best || cost(*cascade) < cost(*best))) best = std::move(cascade);
    }
  }
  if (!best || (best->levels.size() > 1 && best->state.size() > kManyPrefixes)) {
    const auto consider = [&](const std::vector<int32_t>& number, bool runs) {
      for (const TileRule rule : {TileRule::kImages, TileRule::kLargestImages}) {
        CascadeMaker maker(automaton, {rule, true});
        auto cascade = runs ? maker.run_counting_runs(number) : maker.run_counting(number);
        if (cascade && (!best || cascade->state.size() < best->state.size()))
          best = std::move(cascade);
      }
    };
    const std::vector<std::vector<int32_t>> ways = countings(automaton);
    for (const auto& number : ways) consider(number, false);
    for (size_t i = 0; !best && i < ways.size(); ++i) consider(ways[i], true);  // a{20}|b{20}
  }
  if (!best)
    throw InputError("cascade of an automaton of " + std::to_string(automaton.num_states()) +
                     " states: expected at most " + std::to_string(kMaxPrefixes) +
                     " combinations of the levels' states, found more");
  split_large_levels(*best, kLargestLevel);
  return *std::move(best);
}

}  // namespace dp
