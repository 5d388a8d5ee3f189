#include "theory/constructions/counting.h"

#include <cmath>
#include <numbers>

namespace dp::theory {
namespace {

Vector direction(double angle) { return {std::cos(angle), std::sin(angle)}; }

// Rules that find which of d points of the unit circle, the i-th at the angle i * step, two slots hold.
void add_point_rules(Layer& layer, int64_t x, int64_t y, double step, const Features& count) {
  // The nearest other point has the product cos(step) with the right one; rounding may use half of the rest.
  const double margin = (1 - std::cos(step)) / 2;
  for (int64_t i = 0; i < count.size; ++i) {
    const Vector p = direction(static_cast<double>(i) * step);
    layer.rules.push_back({{{x, kSlotScale * p[0]}, {y, kSlotScale * p[1]}},
                           1 - margin,
                           margin / 2,
                           {{count[i], 1}}});
  }
}

// The same where the layer before has told whether the number is odd (due[1]) or even: the other points are then twice as
// far away, and the state may lose four times as much of its length.
void add_parity_point_rules(Layer& layer, int64_t x, int64_t y, double step, const Features& due,
                            const Features& count) {
  constexpr double kOutvote = 4;  // more than the length of any state
  const double margin = (1 - std::cos(2 * step)) / 2;
  for (int64_t i = 0; i < count.size; ++i) {
    const Vector p = direction(static_cast<double>(i) * step);
    Rule rule{{{x, kSlotScale * p[0]}, {y, kSlotScale * p[1]}},
              kOutvote + 1 - margin,
              margin / 2,
              {{count[i], 1}}};
    if (i % 2 == 1)
      rule.when.emplace_back(due[1], kOutvote);
    else
      rule.when.insert(rule.when.end(), {{due[0], kOutvote}, {due[2], kOutvote}});
    layer.rules.push_back(std::move(rule));
  }
}

// Each token turns the plane by `step`, as two reflections. Their mirrors are at equal angles from the
// diagonal, so that keys have no negative entry.
void add_turning_counter(Network& network, const Features& count, double step) {
  const Features& tokens = network.tokens();
  const int64_t bos = tokens.size - 1;
  Layer& layer = network.layer_at(0);
  const Features slots = network.add_slots(2);
  Head& head = layer.heads.emplace_back(2, Reading::kDirection, tokens, slots);
  for (int64_t j = 0; j < 2; ++j) {
    head.write(tokens[bos], j, unit_vector(2, j));
    head.value(tokens[bos], j, unit_vector(2, j));
  }
  const double diagonal = std::numbers::pi / 4;
  for (int64_t token = 0; token < bos; ++token) {
    head.reflect(tokens[token], 0, direction(diagonal - step / 4));
    head.reflect(tokens[token], 1, direction(diagonal + step / 4));
  }
  // R^t reads as (R^t)^T q: backwards.
  for (int64_t token = 0; token < tokens.size; ++token) head.query(tokens[token], {1, 0});
  add_point_rules(layer, slots[0], slots[1], -step, count);
}

// One reflection per token: with F a mirror, the state is R^t s at even t and F R^t s at odd ones, so that each
// step is a reflection, F R or R F. Which of them is due the layer before tells.
void add_mirrored_counter(Network& network, const Features& count, double step) {
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

  // F has its normal on the diagonal; F R and R F have theirs to both sides of it.
  const double diagonal = std::numbers::pi / 4;
  Layer& second = network.layer_at(1);
  Features slots[2];
  for (int64_t row = 0; row < 2; ++row) {
    slots[row] = network.add_slots(1);
    Head& head = second.heads.emplace_back(2, Reading::kVector, due, slots[row]);
    head.write(due[0], 0, {1, 0});
    head.value(due[0], 0, {1});
    head.reflect(due[1], 0, direction(diagonal - step / 2));
    head.reflect(due[2], 0, direction(diagonal + step / 2));
    head.query(due[0], unit_vector(2, row));
    head.query(due[2], unit_vector(2, row));
    Vector mirrored = unit_vector(2, 1 - row);  // F swaps the coordinates and turns them round
    for (double& entry : mirrored) entry = -entry;
    head.query(due[1], mirrored);
  }
  if (count.size % 2 == 0)
    add_parity_point_rules(second, slots[0][0], slots[1][0], step, due, count);
  else
    add_point_rules(second, slots[0][0], slots[1][0], step, count);
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
    add_turning_counter(network, count, step);
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
             : num_householder == 1 ? "reflections in turn"
                                    : "a rotation";
  return c;
}

}  // namespace dp::theory
