// Charts of what the weights of a compiled model do, as Vega-Lite. Text from outside gets into them as data and
// titles, never into expressions.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>

#include "report/compiled_page.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;
using Axis = std::array<double, 3>;

constexpr int kPicture = 270;  // pixels
constexpr const char* kPalette[] = {"#8a8f98", "#f58518", "#4c78a8", "#b279a2", "#54a24b",
                                    "#e45756", "#72b7b2", "#9d755d", "#eeca3b"};

double short_number(double value) { return std::round(value * 1e4) / 1e4; }

ordered_json named(const std::string& text, const std::string& subtitle) {
  return {{"text", text}, {"subtitle", subtitle}, {"anchor", "start"}, {"frame", "group"}};
}

ordered_json tips(std::initializer_list<std::pair<const char*, const char*>> fields) {
  auto list = ordered_json::array();
  for (const auto& [field, name] : fields)
    list.push_back({{"field", field}, {"type", "nominal"}, {"title", name}});
  return list;
}

ordered_json key_below(const ordered_json& name, int columns) {
  return {{"title", name}, {"orient", "bottom"}, {"direction", "horizontal"}, {"columns", columns}};
}

// An axis that is not drawn.
ordered_json hidden_axis(const char* field, double limit) {
  return {{"field", field},
          {"type", "quantitative"},
          {"axis", nullptr},
          {"scale", {{"domain", {-limit, limit}}, {"nice", false}}}};
}

// Every order has its colour, the same in all charts; `least` is the least that occurs in this one.
ordered_json order_colour(const AppliedMaps& maps, int64_t least) {
  std::set<int64_t> orders = {1};
  for (const AppliedMap& map : maps.maps) orders.insert(map.order);
  auto domain = ordered_json::array(), range = ordered_json::array();
  size_t number = 0;
  for (const int64_t order : orders) {
    const char* colour = kPalette[std::min(number++, std::size(kPalette) - 1)];
    if (order >= least) domain.push_back(order), range.push_back(colour);
  }
  return {{"field", "order"},
          {"type", "nominal"},
          {"scale", {{"domain", domain}, {"range", range}}},
          {"legend", key_below("order", 6)}};
}

ordered_json rim_rows() {
  auto rows = ordered_json::array();
  constexpr int kCorners = 96;
  for (int i = 0; i <= kCorners; ++i) {
    const double angle = 2 * std::numbers::pi * i / kCorners;
    rows.push_back(
        {{"i", i}, {"x", short_number(std::cos(angle))}, {"y", short_number(std::sin(angle))}});
  }
  return rows;
}

ordered_json rim_layer(double limit) {
  return {
      {"data", {{"name", "rim"}}},
      {"mark", {{"type", "line"}, {"color", "#8a8f98"}, {"strokeWidth", 1}, {"tooltip", nullptr}}},
      {"encoding",
       {{"x", hidden_axis("x", limit)},
        {"y", hidden_axis("y", limit)},
        {"order", {{"field", "i"}, {"type", "quantitative"}}}}}};
}

// A little from the right and from above, so that no axis of a solid is on the rim; from behind it is the
// same solid with its other side to the front. The third coordinate points to who looks.
Axis seen(const Axis& a, bool front) {
  constexpr double kTurn = 70 * std::numbers::pi / 180, kTilt = 21 * std::numbers::pi / 180;
  const double x = std::cos(kTurn) * a[0] + std::sin(kTurn) * a[1],
               depth = -std::sin(kTurn) * a[0] + std::cos(kTurn) * a[1];
  const double y = std::cos(kTilt) * a[2] - std::sin(kTilt) * depth,
               z = std::sin(kTilt) * a[2] + std::cos(kTilt) * depth;
  return front ? Axis{x, y, z} : Axis{-x, y, -z};
}

struct Mark {
  const AppliedMap* map;
  Axis at;
  Turn turn;
};

// Of all rotations but the identity; a half turn has two axes.
std::vector<Mark> axes_of(const AppliedMaps& maps) {
  std::vector<Mark> marks;
  for (const AppliedMap& map : maps.maps) {
    const Turn turn = turn_of(map.matrix);
    if (turn.degrees == 0) continue;
    marks.push_back({&map, turn.axis, turn});
    if (turn.degrees > 179.9)
      marks.push_back({&map, {-turn.axis[0], -turn.axis[1], -turn.axis[2]}, turn});
  }
  return marks;
}

// Lines on the sphere between the nearest of the axes of highest order, as far as they are on this side.
ordered_json solid_rows(const std::vector<Mark>& marks, bool front) {
  auto rows = ordered_json::array();
  int64_t order = 3;
  for (const Mark& mark : marks) order = std::max(order, mark.map->order);
  double least = 180, nearest = 4;
  for (const Mark& mark : marks)
    if (mark.map->order == order) least = std::min(least, mark.turn.degrees);
  std::vector<Axis> corners;
  for (const Mark& mark : marks)
    if (mark.map->order == order && mark.turn.degrees < least + 1)
      corners.push_back(seen(mark.at, front));
  const auto apart = [](const Axis& a, const Axis& b) {
    return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
  };
  for (const Axis& a : corners)
    for (const Axis& b : corners)
      if (apart(a, b) > 0.01) nearest = std::min(nearest, apart(a, b));
  constexpr int kParts = 12;
  int64_t number = 0;
  for (const Axis& a : corners)
    for (const Axis& b : corners) {
      if (&a >= &b || apart(a, b) > 1.01 * nearest) continue;
      ++number;
      for (int i = 0; i <= kParts; ++i) {
        const double t = static_cast<double>(i) / kParts;
        Axis at;
        for (size_t c = 0; c < 3; ++c) at[c] = (1 - t) * a[c] + t * b[c];
        const double size = theory::length(at);
        if (at[2] >= 0)
          rows.push_back({{"line", number},
                          {"i", i},
                          {"x", short_number(at[0] / size)},
                          {"y", short_number(at[1] / size)}});
      }
    }
  return rows;
}

std::string label_of(const AppliedMaps& maps, size_t i) {
  return (maps.along_word ? std::to_string(i + 1) + ": " : "") + maps.maps[i].name;
}

}  // namespace

ChartVariant sphere_chart(const AppliedMaps& maps, bool front) {
  constexpr double kLimit = 1.08;
  std::vector<Mark> marks = axes_of(maps);
  // Large rings first: what is on top can be pointed at.
  std::ranges::stable_sort(marks, std::ranges::greater{},
                           [](const Mark& m) { return m.turn.degrees; });
  auto rows = ordered_json::array();
  for (const Mark& mark : marks) {
    const Axis at = seen(mark.at, front);
    if (at[2] < 0) continue;
    rows.push_back({{"x", short_number(at[0])},
                    {"y", short_number(at[1])},
                    {"degrees", short_number(mark.turn.degrees)},
                    {"order", mark.map->order},
                    {"element", mark.map->name},
                    {"angle", degrees_text(mark.turn.degrees)},
                    {"axis", axis_text(mark.at)}});
  }
  const ordered_json x = hidden_axis("x", kLimit), y = hidden_axis("y", kLimit);
  const ordered_json solid = {{"data", {{"name", "solid"}}},
                              {"mark",
                               {{"type", "line"},
                                {"color", "#8a8f98"},
                                {"opacity", 0.55},
                                {"strokeWidth", 1},
                                {"tooltip", nullptr}}},
                              {"encoding",
                               {{"x", x},
                                {"y", y},
                                {"detail", {{"field", "line"}}},
                                {"order", {{"field", "i"}, {"type", "quantitative"}}}}}};
  const ordered_json points = {
      {"data", {{"name", "axes"}}},
      {"mark", {{"type", "point"}, {"strokeWidth", 2.5}, {"fill", "transparent"}, {"opacity", 1}}},
      {"encoding",
       {{"x", x},
        {"y", y},
        {"size",
         {{"field", "degrees"},
          {"type", "quantitative"},
          {"scale", {{"type", "pow"}, {"exponent", 2}, {"domain", {0, 180}}, {"range", {0, 400}}}},
          {"legend", nullptr}}},
        {"color", order_colour(maps, 2)},
        {"tooltip", tips({{"element", "element"},
                          {"order", "order"},
                          {"angle", "angle"},
                          {"axis", "axis"}})}}}};
  const ordered_json spec = {
      {"description", "Axes of all rotations on a sphere; larger rings are larger angles"},
      {"title", named(front ? "Axes, from the front" : "Axes, from behind",
                      "a ring for each rotation, as large as its angle")},
      {"width", kPicture},
      {"height", kPicture},
      {"layer", ordered_json::array({rim_layer(kLimit), solid, points})}};
  return {{}, spec, {{"rim", rim_rows()}, {"solid", solid_rows(marks, front)}, {"axes", rows}}};
}

ChartVariant angle_chart(const AppliedMaps& maps) {
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;  // by hundredths of a degree, and order
  for (const AppliedMap& map : maps.maps)
    ++counts[{std::lround(turn_of(map.matrix).degrees * 100), map.order}];
  auto rows = ordered_json::array();
  for (const auto& [key, count] : counts)
    rows.push_back({{"angle", degrees_text(static_cast<double>(key.first) / 100)},
                    {"order", key.second},
                    {"count", count}});
  const ordered_json spec = {
      {"description", "How many elements turn by each angle"},
      {"title",
       named("Angles", maps.along_word ? "symbols of the word" : "elements of the alphabet")},
      {"width", "container"},
      {"height", kPicture},
      {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
      {"data", {{"name", "angles"}}},
      {"mark", "bar"},
      {"encoding",
       {{"x",
         {{"field", "angle"},
          {"type", "nominal"},
          {"sort", nullptr},
          {"axis", {{"title", nullptr}, {"labelAngle", 0}}}}},
        {"y",
         {{"field", "count"},
          {"type", "quantitative"},
          {"axis", {{"title", nullptr}, {"tickMinStep", 1}, {"tickCount", 5}}}}},
        {"color", order_colour(maps, 1)},
        {"tooltip", tips({{"angle", "angle"}, {"order", "order"}, {"count", "elements"}})}}}};
  return {{}, spec, {{"angles", rows}}};
}

ChartVariant plane_chart(const AppliedMaps& maps) {
  constexpr double kLimit = 1.35, kMirror = 0.88;
  auto rotations = ordered_json::array(), mirrors = ordered_json::array(),
       labels = ordered_json::array();
  std::map<std::pair<bool, int64_t>, std::string>
      names;  // of each place: several tokens of a word can share it
  for (size_t i = 0; i < std::min(kMostMaps, maps.maps.size()); ++i) {
    const PlaneMap plane = plane_map_of(maps.maps[i].matrix);
    std::string& name = names[{plane.mirror, std::lround(plane.degrees * 100)}];
    name += (name.empty() ? "" : ", ") + label_of(maps, i);
  }
  for (const auto& [key, name] : names) {
    const double degrees = static_cast<double>(key.second) / 100,
                 angle = degrees * std::numbers::pi / 180;
    const double x = std::cos(angle), y = std::sin(angle);
    const char* kind = key.first ? "mirror" : "rotation";
    ordered_json row = {{"element", name}, {"kind", kind}, {"angle", degrees_text(degrees)}};
    const double length = key.first ? kMirror : 1;
    row["x"] = short_number(length * x), row["y"] = short_number(length * y);
    if (key.first) row["x2"] = short_number(-length * x), row["y2"] = short_number(-length * y);
    (key.first ? mirrors : rotations).push_back(row);
    // Of a mirror, beside the line: its end can be where a rotation is.
    const double place = key.first ? 0.74 : 1.2, aside = key.first ? 0.09 : 0;
    if (!maps.along_word && names.size() <= 26 && name.size() <= 8)
      labels.push_back({{"x", short_number(place * x + aside * y)},
                        {"y", short_number(place * y - aside * x)},
                        {"text", name}});
  }
  const ordered_json x = hidden_axis("x", kLimit), y = hidden_axis("y", kLimit);
  auto kinds = ordered_json::array(), colours = ordered_json::array();
  if (!rotations.empty()) kinds.push_back("rotation"), colours.push_back("#4c78a8");
  if (!mirrors.empty()) kinds.push_back("mirror"), colours.push_back("#f58518");
  const ordered_json colour = {{"field", "kind"},
                               {"type", "nominal"},
                               {"scale", {{"domain", kinds}, {"range", colours}}},
                               {"legend", key_below(nullptr, 2)}};
  const ordered_json tooltip = tips(
      {{"element", maps.along_word ? "symbols" : "element"}, {"kind", "is a"}, {"angle", "at"}});
  const ordered_json lines = {{"data", {{"name", "mirrors"}}},
                              {"mark", {{"type", "rule"}, {"strokeWidth", 2.5}}},
                              {"encoding",
                               {{"x", x},
                                {"y", y},
                                {"x2", {{"field", "x2"}}},
                                {"y2", {{"field", "y2"}}},
                                {"color", colour},
                                {"tooltip", tooltip}}}};
  const ordered_json points = {
      {"data", {{"name", "rotations"}}},
      {"mark", {{"type", "point"}, {"filled", true}, {"size", 90}, {"opacity", 1}}},
      {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"tooltip", tooltip}}}};
  const ordered_json text = {
      {"data", {{"name", "labels"}}},
      {"mark", {{"type", "text"}, {"fontSize", 11}}},
      {"encoding", {{"x", x}, {"y", y}, {"text", {{"field", "text"}, {"type", "nominal"}}}}}};
  const ordered_json spec = {
      {"description", "Rotations as points of a circle, reflections as their mirrors"},
      {"title", named("The plane of the state", "rotations of the point at 0°, and mirrors")},
      {"width", kPicture},
      {"height", kPicture},
      {"layer", ordered_json::array({rim_layer(kLimit), lines, points, text})}};
  return {
      {},
      spec,
      {{"rim", rim_rows()}, {"mirrors", mirrors}, {"rotations", rotations}, {"labels", labels}}};
}

ChartVariant transposition_chart(const AppliedMaps& maps) {
  std::vector<size_t> order;
  for (size_t i = 0; i < maps.maps.size(); ++i) order.push_back(i);
  if (!maps.along_word)
    std::ranges::stable_sort(order, {}, [&](size_t i) {
      return std::pair(size_of(maps.maps[i], Geometry::kTranspositions), maps.maps[i].order);
    });
  order.resize(std::min(order.size(), kMostMaps));
  auto rows = ordered_json::array(), domain = ordered_json::array();
  auto columns = ordered_json::array();  // also those where nothing happens
  std::set<std::pair<size_t, size_t>> swaps;
  for (const size_t i : order) {
    const AppliedMap& map = maps.maps[i];
    columns.push_back(label_of(maps, i));
    for (size_t j = 0; j < map.keys.size(); ++j) {
      if (map.betas[j] == 0) continue;
      const auto rows_swapped = *transposition_of(map.keys[j]);
      swaps.insert(rows_swapped);
      rows.push_back({{"element", label_of(maps, i)},
                      {"order", map.order},
                      {"factor", "factor " + std::to_string(j + 1)},
                      {"swap", transposition_name(rows_swapped)}});
    }
  }
  for (const auto& rows_swapped : swaps) domain.push_back(transposition_name(rows_swapped));
  auto factors = ordered_json::array();
  for (size_t j = 0; j < maps.maps.front().keys.size(); ++j)
    factors.push_back("factor " + std::to_string(j + 1));
  const ordered_json spec = {
      {"description", "Which two rows of the state each factor exchanges, by element"},
      {"title",
       named("Factors as transpositions",
             maps.along_word ? "along the word; what acts first is on top"
                             : "elements by number of factors; what acts first is on top")},
      {"width", "container"},
      {"height", std::max<size_t>(60, factors.size() * 30)},
      {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
      {"data", {{"name", "factors"}}},
      {"mark", "rect"},
      {"encoding",
       {{"x",
         {{"field", "element"},
          {"type", "nominal"},
          {"scale", {{"domain", columns}}},
          {"axis", {{"title", nullptr}, {"labelAngle", -60}, {"labelOverlap", true}}}}},
        {"y",
         {{"field", "factor"},
          {"type", "nominal"},
          {"scale", {{"domain", factors}}},
          {"axis", {{"title", nullptr}}}}},
        {"color",
         {{"field", "swap"},
          {"type", "nominal"},
          {"scale",
           {{"domain", domain}, {"scheme", domain.size() > 10 ? "tableau20" : "tableau10"}}},
          {"legend", key_below("exchanges", 5)}}},
        {"tooltip", tips({{"element", maps.along_word ? "symbol" : "element"},
                          {"order", "order"},
                          {"factor", "which"},
                          {"swap", "exchanges"}})}}}};
  return {{}, spec, {{"factors", rows}}};
}

}  // namespace dp::report
