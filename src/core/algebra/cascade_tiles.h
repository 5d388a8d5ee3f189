// Sets of states that the levels of a cascade tell apart.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "algebra/cascade_places.h"

namespace dp {

using Tile = std::vector<int32_t>;  // of points, ascending

/// What a symbol that merges states resets to: the image of the place's states, the largest such image that
/// holds it, or as Zeiger has it, all points but one.
enum class TileRule { kImages, kLargestImages, kAllButOne };

struct TileStrategy {
  TileRule rule;
  // Whether moves between components may permute. Levels are fewer with it; without it, all groups are
  // those of the automaton's monoid, so that an aperiodic one needs identities and resets only.
  bool permute_between_components;
};

/// Places with most states are refined by tiles, which are sets of the points that stand for their states
/// (label_states()). A symbol that maps the states of such a place one to one onto those of the next
/// permutes tiles; others reset to one that does not hold all points. Other places have one tile, which
/// says nothing: the empty one.
class TileMoves {
 public:
  TileMoves(const Places& places, TileStrategy strategy);

  /// A tile that holds the automaton's start.
  Tile start() const;
  Tile next(size_t place, size_t symbol, const Tile& tile) const;

 private:
  void choose_refined(bool permute_between_components);
  std::set<std::pair<size_t, Tile>> later_tiles() const;
  Tile image(size_t place, size_t symbol) const;
  Tile moved(size_t place, size_t symbol, const Tile& tile) const;

  const Places& places_;
  size_t points_;
  PlaceComponents components_;
  std::vector<bool> is_refined_;
  std::vector<std::vector<int32_t>> labels_;
  std::vector<std::vector<bool>> permutes_;  // [places][symbols]
  std::map<Tile, Tile> tiles_;               // for each image
};

}  // namespace dp
