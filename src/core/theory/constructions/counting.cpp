#include "theory/constructions/counting.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "theory/constructions/plane_sides.h"
#include "theory/householder.h"

namespace dp::theory {
namespace {

Vector direction(double angle) { return {std::cos(angle), std::sin(angle)}; }

Vector turned(const Vector& v, double angle) {
  const Vector by = direction(angle);
  return {by[0] * v[0] - by[1] * v[1], by[1] * v[0] + by[0] * v[1]};
}

// What the tokens do to a counter, by the number that they make: those of the first layer all do the same, those of the
// second know whether that number is odd.
struct Ticks {
  Features driver;
  int64_t start;  // the feature of number 0
  std::vector<std::vector<int64_t>>
      after;                  // features of the other numbers: all of them, or odd and even ones
  std::vector<Terms> parity;  // what is 1 at even and at odd numbers, if that is known
  Layer* layer;
};

// The first layer, where all tokens look alike.
Ticks ticks_of_tokens(Network& network) {
  const Features& tokens = network.tokens();
  const int64_t bos = tokens.size - 1;
  Ticks ticks{tokens, tokens[bos], {{}}, {}, &network.layer_at(0)};
  for (int64_t token = 0; token < bos; ++token) ticks.after[0].push_back(tokens[token]);
  return ticks;
}

// The second layer; the first tells odd numbers from even ones.
Ticks ticks_of_parity(Network& network) {
  const Features& tokens = network.tokens();
  const int64_t bos = tokens.size - 1;
  Layer& first = network.layer_at(0);
  std::vector<int64_t> all;
  for (int64_t token = 0; token < bos; ++token) all.push_back(token);
  const Features sign = add_sign(network, first, all);
  const Features due = network.add_group(3);  // start, odd, even
  first.rules.push_back(all_of(std::vector{tokens[bos]}, {{due[0], 1}}));
  first.rules.push_back({{{sign[0], -kSlotScale}}, 0, 0.5, {{due[1], 1}}});
  first.rules.push_back({{{sign[0], kSlotScale}, {tokens[bos], -2}}, 0, 0.5, {{due[2], 1}}});
  return {due,
          due[0],
          {{due[1]}, {due[2]}},
          {{{due[0], 1}, {due[2], 1}}, {{due[1], 1}}},
          &network.layer_at(1)};
}

// Three places, and a thing in one of them: at each number it goes on in a circle, by two swaps, or the two swaps come in
// turn, which takes it there and back in six. Each place is read for itself; swaps turn signs round. Nothing is lost of such
// a state (Head::swap), so it counts for ever. Returns what is 1 at each number of a round, and 0 or less at those others
// that the parity does not tell from it.
std::vector<Terms> add_three_places(Network& network, const Ticks& ticks) {
  std::vector<Terms> is_at(ticks.after.size() == 1 ? 3 : 6);
  int64_t place = 0, sign = 1, slots[3];
  for (int64_t row = 0; row < 3; ++row) {
    const Features slot = network.add_slots(1);
    slots[row] = slot[0];
    Head& head = ticks.layer->heads.emplace_back(3, Reading::kVector, ticks.driver, slot);
    head.write(ticks.start, 0, unit_vector(3, 0));
    head.value(ticks.start, 0, {1});
    head.query(ticks.start, unit_vector(3, row));
    for (size_t which = 0; which < ticks.after.size(); ++which)
      for (const int64_t feature : ticks.after[which]) {
        if (ticks.after.size() == 1) {
          head.swap(feature, 0, 0, 1);
          head.swap(feature, 1, 1, 2);
        } else {
          head.swap(feature, 0, static_cast<int64_t>(which), static_cast<int64_t>(which) + 1);
        }
        head.query(feature, unit_vector(3, row));
      }
  }
  const auto swap = [&](int64_t i) {  // of places i and i + 1
    if (place == i || place == i + 1) place = 2 * i + 1 - place, sign = -sign;
  };
  for (size_t t = 0; t < is_at.size(); ++t) {
    is_at[t] = {{slots[place], static_cast<double>(sign) * kSlotScale}};
    if (ticks.after.size() == 1)
      swap(0), swap(1);
    else
      swap(static_cast<int64_t>(t % 2));
  }
  return is_at;
}

// A sign that turns round at these features.
int64_t add_sign_at(Network& network, const Ticks& ticks, const std::vector<int64_t>& turning) {
  const Features slot = network.add_slots(1);
  Head& head = ticks.layer->heads.emplace_back(1, Reading::kDirection, ticks.driver, slot);
  head.write(ticks.start, 0, {1});
  head.value(ticks.start, 0, {1});
  for (const int64_t feature : turning) head.reflect(feature, 0, {1});
  head.query(ticks.start, {1});
  for (const std::vector<int64_t>& features : ticks.after)
    for (const int64_t feature : features) head.query(feature, {1});
  return slot[0];
}

// The direction of a point of the plane that each token turns by `step`, as two reflections. One of the mirrors' normals is
// a coordinate axis, and so exact, and both are in the quadrant where keys have no negative entry. It is read backwards:
// (R^t)^T q.
Features add_turning_point(Network& network, const Ticks& ticks, double step) {
  const Features slots = network.add_slots(2);
  Head& head = ticks.layer->heads.emplace_back(2, Reading::kDirection, ticks.driver, slots);
  for (int64_t j = 0; j < 2; ++j) {
    head.write(ticks.start, j, unit_vector(2, j));
    head.value(ticks.start, j, unit_vector(2, j));
  }
  head.query(ticks.start, {1, 0});
  for (const int64_t feature : ticks.after[0]) {
    head.reflect(feature, 0, direction(0));
    head.reflect(feature, 1, direction(step / 2));
    head.query(feature, {1, 0});
  }
  return slots;
}

Terms point_terms(const Features& slots, double angle) {
  const Vector p = direction(-angle);
  return {{slots[0], kSlotScale * p[0]}, {slots[1], kSlotScale * p[1]}};
}

// Things that count modulo different numbers: what is 1 if the number, modulo the length of the list, is this, and at most
// 1 - gap at others. Together they count modulo the least common multiple.
struct Part {
  std::vector<Terms> is_at;
  double gap;
};

void add_part_rules(Layer& layer, const Features& count, const std::vector<Part>& parts) {
  size_t period = 1;
  double gap = 1;
  for (const Part& part : parts)
    period = std::lcm(period, part.is_at.size()), gap = std::min(gap, part.gap);
  for (size_t t = 0; t < period; ++t) {
    Rule rule{{},
              static_cast<double>(parts.size()) - gap / 2,
              gap / 4,
              {{count[static_cast<int64_t>(t) % count.size], 1}}};
    for (const Part& part : parts) {
      const Terms& terms = part.is_at[t % part.is_at.size()];
      rule.when.insert(rule.when.end(), terms.begin(), terms.end());
    }
    layer.rules.push_back(std::move(rule));
  }
}

Part sign_part(int64_t slot, const std::vector<int64_t>& signs) {
  Part part{{}, 1};
  for (const int64_t sign : signs)
    part.is_at.push_back({{slot, static_cast<double>(sign) * kSlotScale}});
  return part;
}

// In the first layer: three places, a sign for the parity, and what remains of d as a rotation of the plane. Angles add up
// rounding errors; places and signs do not.
void add_turning_counter(Network& network, const Features& count) {
  const Ticks ticks = ticks_of_tokens(network);
  std::vector<Part> parts;
  int64_t rest = count.size;
  if (rest % 3 == 0 && rest % 9 != 0) {
    parts.push_back({add_three_places(network, ticks), 1});
    rest /= 3;
  }
  if (rest % 4 == 2) {
    parts.push_back(sign_part(add_sign_at(network, ticks, ticks.after[0]), {1, -1}));
    rest /= 2;
  }
  if (rest > 1) {
    const double step = 2 * std::numbers::pi / static_cast<double>(rest);
    const Features slots = add_turning_point(network, ticks, step);
    // The nearest other point has the product cos(step) with the right one.
    Part part{{}, 1 - std::cos(step)};
    for (int64_t i = 0; i < rest; ++i)
      part.is_at.push_back(point_terms(slots, static_cast<double>(i) * step));
    parts.push_back(std::move(part));
  }
  add_part_rules(*ticks.layer, count, parts);
}

// In the second layer, 3, 6 and 12: three places, which with the parity count modulo 6, and for 12 a sign that turns round
// at every other number.
void add_places_in_turn(Network& network, const Features& count) {
  const Ticks ticks = ticks_of_parity(network);
  std::vector<Part> parts = {{add_three_places(network, ticks), 1}, {ticks.parity, 1}};
  if (count.size == 12)
    parts.push_back(sign_part(add_sign_at(network, ticks, ticks.after[0]), {1, -1, -1, 1}));
  add_part_rules(*ticks.layer, count, parts);
}

// One reflection per token: with F a mirror, the state is R^t s at even t and F R^t s at odd ones, so that each
// step is a reflection, F R or R F. Which of them is due the layer before tells, and points are told apart only from those
// with the same parity. With F's normal at step/2, those of F R and R F are at 0 and at `step`, without negative entries.
void add_mirrored_counter(Network& network, const Features& count, double step) {
  const Ticks ticks = ticks_of_parity(network);
  const int64_t d = count.size, odd = ticks.after[0][0], even = ticks.after[1][0];
  const int64_t points = d % 2 == 0 ? d / 2 : d;
  const std::vector<Vector> lines =
      dividing_lines(points, 2 * std::numbers::pi / static_cast<double>(points));
  std::vector<int64_t> slots;
  const Vector f = direction(step / 2);
  for (const Vector& line : lines) {
    const Features slot = network.add_slots(1);
    slots.push_back(slot[0]);
    Head& head = ticks.layer->heads.emplace_back(2, Reading::kDirection, ticks.driver, slot);
    head.write(ticks.start, 0, {1, 0});
    head.value(ticks.start, 0, {1});
    head.reflect(odd, 0, direction(0));
    head.reflect(even, 0, direction(step));
    head.query(ticks.start, line);
    head.query(even, line);
    // At odd t, the points of even ones turned by a step, and mirrored.
    head.query(odd, householder({2, f}) * turned(line, step));
  }
  for (int64_t t = 0; t < (d % 2 == 0 ? d : 2 * d); ++t) {
    Rule rule{side_terms(lines, slots, direction(static_cast<double>(t - t % 2) * step)),
              static_cast<double>(lines.size()) + 1,
              0.5,
              {{count[t % d], 1}}};
    for (const auto& [feature, weight] : ticks.parity[static_cast<size_t>(t % 2)])
      rule.when.emplace_back(feature, 2 * weight);  // no less than a side
    ticks.layer->rules.push_back(std::move(rule));
  }
}

}  // namespace

Features add_sign(Network& network, Layer& layer, const std::vector<int64_t>& flipping) {
  const Features& tokens = network.tokens();
  const int64_t bos = tokens.size - 1;
  const Features slot = network.add_slots(1);
  Head& head = layer.heads.emplace_back(1, Reading::kDirection, tokens, slot);
  head.write(tokens[bos], 0, {1});
  head.value(tokens[bos], 0, {1});
  for (const int64_t token : flipping) head.reflect(tokens[token], 0, {1});
  for (int64_t token = 0; token < tokens.size; ++token) head.query(tokens[token], {1});
  return slot;
}

Features add_parity(Network& network, Layer& layer) {
  std::vector<int64_t> all;
  for (int64_t token = 0; token + 1 < network.tokens().size; ++token) all.push_back(token);
  const Features sign = add_sign(network, layer, all), parity = network.add_group(2);
  layer.rules.push_back({{{sign[0], kSlotScale}}, 0, 0.5, {{parity[0], 1}}});
  layer.rules.push_back({{{sign[0], -kSlotScale}}, 0, 0.5, {{parity[1], 1}}});
  return parity;
}

Features add_counter(Network& network, int64_t d, int64_t num_householder) {
  if (d == 2) return add_parity(network, network.layer_at(0));
  const Features count = network.add_group(d);
  const double step = 2 * std::numbers::pi / static_cast<double>(d);
  if (num_householder >= 2)
    add_turning_counter(network, count);
  else if (d == 3 || d == 6 || d == 12)
    add_places_in_turn(network, count);
  else
    add_mirrored_counter(network, count, step);
  return count;
}

Construction counting(const Problem& problem, int64_t d, int64_t num_householder,
                      Architecture architecture) {
  Construction c{Network(problem.vocab_size, problem.bos + 1, architecture), "", "",
                 num_householder};
  const Features count = add_counter(c.network, d, num_householder);
  for (int64_t i = 0; i < d; ++i)
    c.network.add_logit(problem.state_tokens[static_cast<size_t>(i)], {{count[i], 1}});
  c.theorem =
      "counting modulo d (lemma on counting, " +
      std::string(num_householder == 1 && d > 2 ? "i: two layers, n_h = 1)" : "ii: one layer)");
  c.detail = d == 2                 ? "a sign that flips"
             : d == 3 || d == 6     ? "places that are swapped"
             : num_householder == 1 ? "reflections in turn"
                                    : "a rotation";
  return c;
}

}  // namespace dp::theory
