#include "report/automaton_drawing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>
#include <set>

#include "report/page.h"

namespace dp::report {
namespace {

constexpr double kRadius = 20;    // of a state
constexpr double kApart = 104;    // states next to each other
constexpr double kLoop = 36;      // how far a loop reaches beyond its state
constexpr double kBend = 20;      // of an edge with a counterpart
constexpr double kLetter = 8;     // about the width of a character
constexpr double kArrow = 9;      // length of an arrow's head
constexpr size_t kMostNamed = 4;  // symbols of an edge that are all written

struct Spot {
  double x = 0, y = 0;
};
Spot operator+(Spot a, Spot b) { return {a.x + b.x, a.y + b.y}; }
Spot operator-(Spot a, Spot b) { return {a.x - b.x, a.y - b.y}; }
Spot operator*(double s, Spot a) { return {s * a.x, s * a.y}; }
Spot towards(double angle) { return {std::cos(angle), std::sin(angle)}; }
Spot unit(Spot a) { return (1 / std::hypot(a.x, a.y)) * a; }

std::string coordinates(Spot at) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f %.1f", at.x, at.y);
  return text;
}

std::string places(Spot at, const char* x, const char* y) {
  char text[96];
  std::snprintf(text, sizeof text, " %s=\"%.1f\" %s=\"%.1f\"", x, at.x, y, at.y);
  return text;
}

// The first characters, if there are more than `most`; bytes of a UTF-8 character stay together.
std::string shortened(const std::string& text, size_t most) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i)
    if ((text[i] & 0xC0) != 0x80 && characters++ == most) return text.substr(0, i) + "…";
  return text;
}

size_t characters_of(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

double half_width(const std::string& label) {
  return kLetter / 2 * static_cast<double>(characters_of(label)) + 2;
}

// What has been drawn lies within.
struct Box {
  double left = 1e9, top = 1e9, right = -1e9, bottom = -1e9;
  void add(Spot at, double half_width, double half_height) {
    left = std::min(left, at.x - half_width), right = std::max(right, at.x + half_width);
    top = std::min(top, at.y - half_height), bottom = std::max(bottom, at.y + half_height);
  }
  bool meets(Spot at, double half_width, double half_height) const {
    return at.x + half_width > left && at.x - half_width < right && at.y + half_height > top &&
           at.y - half_height < bottom;
  }
};

// The states that occur, in the order they have on the circle, the start first: pairs swap places for as long
// as that brings ends of edges closer together.
std::vector<int32_t> arranged(const Automaton& automaton, const std::vector<Edge>& edges) {
  std::vector<int32_t> order = {automaton.start};
  for (const Edge& edge : edges)
    for (const int32_t state : {edge.from, edge.to})
      if (std::ranges::find(order, state) == order.end()) order.push_back(state);
  const auto n = static_cast<int64_t>(order.size());
  std::map<int32_t, int64_t> place;
  for (int64_t i = 0; i < n; ++i) place[order[static_cast<size_t>(i)]] = i;
  const auto total = [&] {
    int64_t sum = 0;
    for (const Edge& edge : edges) {
      const int64_t apart = std::abs(place[edge.from] - place[edge.to]);
      sum += std::min(apart, n - apart);
    }
    return sum;
  };
  for (int64_t best = total(), before = best + 1; best < before;) {
    before = best;
    for (size_t i = 1; i < order.size(); ++i)
      for (size_t j = i + 1; j < order.size(); ++j) {
        const auto swap = [&] {
          std::swap(place[order[i]], place[order[j]]);
          std::swap(order[i], order[j]);
        };
        swap();
        if (const int64_t now = total(); now < best)
          best = now;
        else
          swap();
      }
  }
  return order;
}

class Drawing {
 public:
  Drawing(const Automaton& automaton, const std::vector<Edge>& edges) : automaton_(automaton) {
    const std::vector<int32_t> order = arranged(automaton, edges);
    const auto n = static_cast<double>(order.size());
    const double radius = n < 2 ? 0 : std::max(kApart * 0.85, kApart / 2 / std::sin(M_PI / n));
    for (size_t i = 0; i < order.size(); ++i) {
      const double angle = std::numbers::pi * (1 + 2 * static_cast<double>(i) / n);
      angle_[order[i]] = angle;
      centre_[order[i]] = radius * towards(angle);
    }
    for (const Edge& edge : edges) pairs_.emplace(edge.from, edge.to);
    for (const Edge& edge : edges)
      if (edge.from == edge.to) add_loop(edge);
    for (const Edge& edge : edges)
      if (edge.from != edge.to) add_edge(edge);
    for (const auto& [state, at] : centre_) add_state(state, at);
    add_start();
  }

  std::string svg() const {
    char open[256];
    const double width = box_.right - box_.left, height = box_.bottom - box_.top;
    std::snprintf(open, sizeof open,
                  "<svg class=\"automaton\" role=\"img\" aria-label=\"The graph of the automaton\" "
                  "viewBox=\"%.1f %.1f %.1f %.1f\" style=\"width: %.0fpx; min-width: %.0fpx\">\n",
                  box_.left, box_.top, width, height, 1.25 * width, 0.62 * width);
    return open + edges_ + labels_ + states_ + "</svg>\n";
  }

 private:
  // An arrow's head at `tip`, pointing in `direction`.
  static std::string head(Spot tip, Spot direction) {
    const Spot back = tip - kArrow * direction,
               side = kArrow * 0.45 * Spot{-direction.y, direction.x};
    return "<path class=\"head\" d=\"M" + coordinates(tip) + " L" + coordinates(back + side) +
           " L" + coordinates(back - side) + " Z\"/>";
  }

  void add(const Edge& edge, const std::string& path, Spot tip, Spot direction, Spot label) {
    const std::string ends = std::to_string(edge.from) + "-" + std::to_string(edge.to);
    const std::string text = edge_label(automaton_, edge);
    edges_ += "<g class=\"edge\" data-edge=\"" + ends + "\"><path d=\"" + path + "\"/>" +
              head(tip, direction) + "</g>\n";
    std::string all;
    for (const int32_t symbol : edge.symbols)
      all += (all.empty() ? "" : " ") + automaton_.alphabet[static_cast<size_t>(symbol)];
    labels_ += "<text class=\"label\" data-label=\"" + ends + "\"" + places(label, "x", "y") + ">" +
               html(text) + "<title>" + html(all) + "</title></text>\n";
    box_.add(label, half_width(text) + 2, 12);
    taken_.emplace_back().add(label, half_width(text), 9);
  }

  // A curve from state to state that begins and ends at their rims; straight unless there is one back.
  void add_edge(const Edge& edge) {
    const Spot p = centre_[edge.from], q = centre_[edge.to], along = unit(q - p);
    const bool counterpart = pairs_.contains({edge.to, edge.from});
    const Spot middle = 0.5 * (p + q) + (counterpart ? 2 * kBend : 0) * Spot{-along.y, along.x};
    const Spot leave = unit(middle - p), arrive = unit(q - middle);
    const Spot begin = p + kRadius * leave, tip = q - (kRadius + 2) * arrive,
               end = tip - 0.7 * kArrow * arrive;
    // Where no other label is; not in the middle if possible, since that is where lines cross.
    const double half = half_width(edge_label(automaton_, edge));
    Spot label;
    for (const double t : {0.42, 0.5, 0.34, 0.58, 0.66, 0.26, 0.42}) {
      label = (1 - t) * (1 - t) * begin + 2 * t * (1 - t) * middle + t * t * end;
      if (std::ranges::none_of(taken_, [&](const Box& box) { return box.meets(label, half, 9); }))
        break;
    }
    add(edge, "M" + coordinates(begin) + " Q" + coordinates(middle) + " " + coordinates(end), tip,
        arrive, label);
  }

  // Away from the centre of the circle.
  void add_loop(const Edge& edge) {
    const Spot p = centre_[edge.from];
    const double out = angle_[edge.from];
    const double reach = kRadius + kLoop / 0.75;
    const double beside =
        9 + std::abs(std::cos(out)) * (half_width(edge_label(automaton_, edge)) - 8);
    const Spot begin = p + kRadius * towards(out - 0.5), first = p + reach * towards(out - 0.5),
               second = p + reach * towards(out + 0.5);
    const Spot tip = p + (kRadius + 2) * towards(out + 0.45), direction = unit(tip - second);
    add(edge,
        "M" + coordinates(begin) + " C" + coordinates(first) + " " + coordinates(second) + " " +
            coordinates(tip - 0.7 * kArrow * direction),
        tip, direction, p + (kRadius + kLoop + beside) * towards(out));
    box_.add(p + 0.8 * reach * towards(out), 14, 14);
  }

  void add_state(int32_t state, Spot at) {
    const auto q = static_cast<size_t>(state);
    const std::string& name = automaton_.state_names[q];
    const bool accepting = automaton_.accepting[q];
    const size_t characters = characters_of(name);
    const auto circle = [&](double radius, const char* kind) {
      return "<circle class=\"" + std::string(kind) + "\"" + places(at, "cx", "cy") + " r=\"" +
             std::to_string(static_cast<int>(radius)) + "\"/>";
    };
    states_ += std::string("<g class=\"state") + (accepting ? " accepting" : "") +
               "\" data-state=\"" + std::to_string(state) + "\">" + circle(kRadius, "rim") +
               (accepting ? circle(kRadius - 4, "ring") : "") + "<text" + places(at, "x", "y") +
               (characters > 3 ? " class=\"long\"" : "") +
               (characters > 5 ? " textLength=\"34\" lengthAdjust=\"spacingAndGlyphs\"" : "") +
               ">" + html(shortened(name, 7)) + "</text><title>" + html(name) +
               (accepting ? ", accepts" : "") + "</title></g>\n";
    box_.add(at, kRadius + 4, kRadius + 4);
  }

  // From outside; beside the loop of the start, if there is one.
  void add_start() {
    const bool loop = pairs_.contains({automaton_.start, automaton_.start});
    const Spot at = centre_[automaton_.start],
               out = towards(angle_[automaton_.start] + (loop ? 0.95 : 0)),
               tip = at + (kRadius + 2) * out, begin = tip + 24 * out;
    edges_ += "<g class=\"start\"><path d=\"M" + coordinates(begin) + " L" +
              coordinates(tip + 0.7 * kArrow * out) + "\"/>" + head(tip, -1 * out) + "</g>\n";
    box_.add(begin, 4, 4);
  }

  const Automaton& automaton_;
  std::map<int32_t, double> angle_;
  std::map<int32_t, Spot> centre_;
  std::set<std::pair<int32_t, int32_t>> pairs_;
  std::string edges_, labels_, states_;
  Box box_;
  std::vector<Box> taken_;  // by labels
};

}  // namespace

std::vector<Edge> merged_edges(const Automaton& automaton) {
  std::vector<Edge> edges;
  std::vector<int32_t> found = {automaton.start};
  for (size_t i = 0; i < found.size(); ++i) {
    std::map<int32_t, Edge> from_here;
    for (int32_t symbol = 0; symbol < automaton.num_symbols(); ++symbol) {
      const int32_t to = automaton.next(found[i], symbol);
      Edge& edge = from_here[to];
      edge.from = found[i], edge.to = to;
      edge.symbols.push_back(symbol);
      if (std::ranges::find(found, to) == found.end()) found.push_back(to);
    }
    for (const auto& [to, edge] : from_here) edges.push_back(edge);
  }
  std::ranges::stable_sort(edges, {}, &Edge::from);
  return edges;
}

std::string edge_label(const Automaton& automaton, const Edge& edge) {
  const auto list = [&](const std::vector<int32_t>& symbols, size_t most) {
    std::string text;
    for (size_t i = 0; i < std::min(most, symbols.size()); ++i)
      text +=
          (i == 0 ? "" : ", ") + shortened(automaton.alphabet[static_cast<size_t>(symbols[i])], 8);
    return text;
  };
  if (edge.symbols.size() <= kMostNamed) return list(edge.symbols, kMostNamed);
  std::vector<int32_t> others;
  for (int32_t symbol = 0; symbol < automaton.num_symbols(); ++symbol)
    if (!std::ranges::binary_search(edge.symbols, symbol)) others.push_back(symbol);
  if (others.empty()) return "all";
  if (others.size() < kMostNamed) return "all but " + list(others, kMostNamed);
  return list(edge.symbols, 2) + " … (" + std::to_string(edge.symbols.size()) + ")";
}

std::string draw(const Automaton& automaton) {
  return Drawing(automaton, merged_edges(automaton)).svg();
}

}  // namespace dp::report
