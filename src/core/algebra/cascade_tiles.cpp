#include "algebra/cascade_tiles.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace dp {
namespace {

/// Chooses a tile for each image, none of which holds all points.
std::map<Tile, Tile> choose_tiles(const std::vector<Tile>& images, size_t points, TileRule rule) {
  std::map<Tile, Tile> result;
  if (rule == TileRule::kAllButOne) {
    std::vector<Tile> left = images;
    while (!left.empty()) {
      std::vector<size_t> hits(points);  // how many images each point is in
      for (const Tile& image : left)
        for (const int32_t point : image) ++hits[static_cast<size_t>(point)];
      const auto missing = static_cast<int32_t>(std::ranges::min_element(hits) - hits.begin());
      Tile tile;
      for (int32_t point = 0; point < static_cast<int32_t>(points); ++point)
        if (point != missing) tile.push_back(point);
      std::erase_if(left, [&](const Tile& image) {
        if (std::ranges::binary_search(image, missing)) return false;
        result[image] = tile;
        return true;
      });
    }
    return result;
  }
  std::vector<Tile> largest_first = images;
  if (rule == TileRule::kLargestImages)
    std::ranges::stable_sort(largest_first, std::greater<>(), &Tile::size);
  std::vector<const Tile*> tiles;
  for (const Tile& image : largest_first) {
    const Tile* chosen = &image;
    if (rule == TileRule::kLargestImages)
      for (const Tile* tile : tiles)
        if (std::ranges::includes(*tile, image)) chosen = tile;
    if (chosen == &image) tiles.push_back(chosen);
    result[image] = *chosen;
  }
  return result;
}

}  // namespace

TileMoves::TileMoves(const Places& places, TileStrategy strategy)
    : places_(places), points_(places.most_states()), components_(places) {
  labels_ = label_states(places, components_, points_);
  choose_refined(strategy.permute_between_components);
  permutes_.resize(places.size());
  std::vector<Tile> images;
  for (size_t place = 0; place < places.size(); ++place) {
    for (size_t symbol = 0; symbol < places[place].next.size(); ++symbol) {
      const bool is_next_refined = is_refined_[places.next(place, symbol)];
      permutes_[place].push_back(is_refined_[place] && is_next_refined &&
                                 all_differ(places.targets(place, symbol)));
      if (is_next_refined && !permutes_[place][symbol]) images.push_back(image(place, symbol));
    }
  }
  std::ranges::sort(images);
  images.erase(std::unique(images.begin(), images.end()), images.end());
  // Comparing all with all takes too long for many; they are then taken as they are.
  constexpr size_t kMostCompared = 2000;
  tiles_ = choose_tiles(images, points_,
                        images.size() > kMostCompared ? TileRule::kImages : strategy.rule);
}

/// A place can be refined if it has most states and everything that fills it does so from places that are
/// refined too; the latter must keep all points, unless moves between components may permute.
void TileMoves::choose_refined(bool permute_between_components) {
  std::vector<bool> refined(components_.count, true);
  std::vector<size_t> order(places_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t place) { return components_.of(place); });
  for (const size_t place : order) {
    const size_t component = components_.of(place);
    if (places_[place].states.size() < points_) refined[component] = false;
    for (size_t symbol = 0; symbol < places_[place].next.size(); ++symbol) {
      const size_t next = places_.next(place, symbol), target = components_.of(next);
      if (permute_between_components || target == component || !fills_next(places_, place, symbol))
        continue;
      const std::vector<int32_t> targets = places_.targets(place, symbol);
      bool keeps = refined[component];
      for (size_t i = 0; i < targets.size(); ++i)
        keeps = keeps && labels_[place][i] == labels_[next][static_cast<size_t>(targets[i])];
      if (!keeps) refined[target] = false;
    }
  }
  for (size_t place = 0; place < places_.size(); ++place)
    is_refined_.push_back(refined[components_.of(place)]);
}

Tile TileMoves::start() const {
  if (!is_refined_[0]) return {};
  const int32_t point =
      labels_[0][static_cast<size_t>(places_.position(0, places_.automaton().start))];
  Tile best = {point};  // unless a tile that is there anyhow will do: this one may lead to others
  bool found = false;
  for (const auto& [place, tile] : later_tiles()) {
    if (place != 0 || !std::ranges::binary_search(tile, point)) continue;
    if (found && tile.size() >= best.size()) continue;
    best = tile;
    found = true;
  }
  return best;
}

Tile TileMoves::next(size_t place, size_t symbol, const Tile& tile) const {
  if (!is_refined_[places_.next(place, symbol)]) return {};
  return permutes_[place][symbol] ? moved(place, symbol, tile) : tiles_.at(image(place, symbol));
}

/// Tiles of places after a reset, and what permutations make of them; some, if they are very many.
std::set<std::pair<size_t, Tile>> TileMoves::later_tiles() const {
  std::set<std::pair<size_t, Tile>> seen;
  std::vector<std::pair<size_t, Tile>> pending;
  const auto reach = [&](size_t place, size_t symbol, const Tile& tile) {
    std::pair after(places_.next(place, symbol), next(place, symbol, tile));
    if (after.second.empty() || !seen.insert(after).second) return;
    pending.push_back(std::move(after));
  };
  for (size_t place = 0; place < places_.size(); ++place)
    for (size_t symbol = 0; symbol < permutes_[place].size(); ++symbol)
      if (!permutes_[place][symbol]) reach(place, symbol, {});
  constexpr size_t kMost = 10'000;
  while (!pending.empty() && seen.size() < kMost) {
    const auto [place, tile] = std::move(pending.back());
    pending.pop_back();
    for (size_t symbol = 0; symbol < permutes_[place].size(); ++symbol)
      if (permutes_[place][symbol]) reach(place, symbol, tile);
  }
  return seen;
}

Tile TileMoves::image(size_t place, size_t symbol) const {
  Tile result;
  for (const int32_t target : places_.targets(place, symbol))
    result.push_back(labels_[places_.next(place, symbol)][static_cast<size_t>(target)]);
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

Tile TileMoves::moved(size_t place, size_t symbol, const Tile& tile) const {
  Tile result;
  const std::vector<int32_t> targets = places_.targets(place, symbol);
  for (size_t i = 0; i < targets.size(); ++i)
    if (std::ranges::binary_search(tile, labels_[place][i]))
      result.push_back(labels_[places_.next(place, symbol)][static_cast<size_t>(targets[i])]);
  std::ranges::sort(result);
  return result;
}

}  // namespace dp
