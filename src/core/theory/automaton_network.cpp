// Automata as cascades of permutation-reset automata, a gated layer for each.
#include <algorithm>

#include "base/error.h"
#include "theory/construction.h"

namespace dp::theory {
namespace {

std::vector<Vector> mirrors_of(const StateMap& permutation) {
  Matrix m(permutation.size(), permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) m(static_cast<size_t>(permutation[i]), i) = 1;
  return reflections(m);
}

// What a feature of the stream does to the states of a level; none: writes the start.
struct LevelStep {
  int64_t feature;
  const StateMap* map = nullptr;
};

// The state is the unit vector of the level's state, and there is a head to read each of its entries. Resets
// close the gate and write another unit vector. A level of one state needs nothing.
std::vector<Features> add_level(Network& network, Layer& layer, const Cascade::Level& level,
                                const Features& driver, const std::vector<LevelStep>& steps) {
  std::vector<Features> slots;
  for (int64_t row = 0; row < level.size; ++row) {
    slots.push_back(network.add_slots(1));
    Head& head = layer.heads.emplace_back(level.size, Reading::kVector, driver, slots.back());
    for (const LevelStep& step : steps) {
      head.query(step.feature, unit_vector(level.size, row));
      if (step.map == nullptr || (is_reset(*step.map) && !is_permutation(*step.map))) {
        if (step.map != nullptr) head.reset(step.feature);
        head.write(step.feature, 0,
                   unit_vector(level.size, step.map == nullptr ? level.start : step.map->front()));
        head.value(step.feature, 0, {1});
        continue;
      }
      int64_t factor = 0;
      for (Vector& k : mirrors_of(*step.map)) head.reflect(step.feature, factor++, std::move(k));
    }
  }
  return slots;
}

// The level's state as a group of features.
Features add_states(Network& network, Layer& layer, const std::vector<Features>& slots) {
  const Features states = network.add_group(static_cast<int64_t>(slots.size()));
  for (size_t i = 0; i < slots.size(); ++i)
    layer.rules.push_back(
        {{{slots[i][0], kSlotScale}}, 0.5, 0.25, {{states[static_cast<int64_t>(i)], 1}}});
  return states;
}

// The states of `levels` before a prefix's number, level 0 first.
std::vector<int64_t> prefix_states(const Cascade& cascade, size_t levels, int64_t prefix) {
  std::vector<int64_t> states(levels);
  for (size_t i = levels; i-- > 0; prefix /= cascade.levels[i].size)
    states[i] = prefix % cascade.levels[i].size;
  return states;
}

int64_t most_factors(const Cascade& cascade) {
  size_t most = 1;
  for (const Cascade::Level& level : cascade.levels)
    for (const StateMap& map : level.maps)
      if (is_permutation(map)) most = std::max(most, mirrors_of(map).size());
  return static_cast<int64_t>(most);
}

class CascadeNetwork {
 public:
  CascadeNetwork(const Problem& problem, const Cascade& cascade, Network& network)
      : problem_(problem), cascade_(cascade), network_(network) {}

  void build() {
    const size_t levels = cascade_.levels.size();
    Layer* layer = &network_.add_layer();
    if (levels == 0) {  // a single state: any token says so
      for (int64_t token = 0; token < network_.tokens().size; ++token)
        network_.add_logit(problem_.state_tokens[0], {{network_.tokens()[token], 1}});
      return;
    }
    std::vector<Features> slots =
        add_level(network_, *layer, cascade_.levels[0], network_.tokens(), first_steps());
    if (levels > 1) parity_ = add_parity(network_, *layer);
    for (size_t i = 1; i < levels; ++i) {
      now_.push_back(add_states(network_, *layer, slots));
      const Features driver = add_delay(i);
      std::vector<LevelStep> steps = {{driver[0]}};
      const Cascade::Level& level = cascade_.levels[i];
      for (size_t m = 0; m < level.maps.size(); ++m)
        steps.push_back({driver[1 + static_cast<int64_t>(m)], &level.maps[m]});
      layer = &network_.add_layer();
      slots = add_level(network_, *layer, level, driver, steps);
    }
    add_answers(*layer, slots);
  }

 private:
  std::vector<LevelStep> first_steps() const {
    const Cascade::Level& level = cascade_.levels[0];
    std::vector<LevelStep> steps = {{network_.tokens()[problem_.bos]}};
    for (size_t x = 0; x < problem_.symbol_tokens.size(); ++x)
      steps.push_back({network_.tokens()[problem_.symbol_tokens[x]],
                       &level.maps[static_cast<size_t>(level.action[0][x])]});
    return steps;
  }

  // A layer that recalls the states of level i-1 before the symbol, and the group of what level i has to do: start,
  // or one of its maps.
  Features add_delay(size_t i) {
    const Cascade::Level &above = cascade_.levels[i - 1], &level = cascade_.levels[i];
    const int64_t bos = network_.tokens()[problem_.bos];
    Layer& layer = network_.add_layer();
    std::vector<int64_t> what;
    for (int64_t s = 0; s < above.size; ++s) what.push_back(now_.back()[s]);
    const Features recalled = add_recall(network_, layer, what, parity_, 1);
    const Features before = network_.add_group(above.size);
    layer.rules.push_back(all_of(std::vector{bos}, {{before[above.start], 1}}));
    for (int64_t s = 0; s < above.size; ++s)
      layer.rules.push_back({{{recalled[s], kSlotScale}}, 0.5, 0.4, {{before[s], 1}}});

    const Features due = network_.add_group(1 + static_cast<int64_t>(level.maps.size()));
    layer.rules.push_back(all_of(std::vector{bos}, {{due[0], 1}}));
    for (size_t prefix = 0; prefix < level.action.size(); ++prefix) {
      const auto states = prefix_states(cascade_, i, static_cast<int64_t>(prefix));
      for (size_t x = 0; x < level.action[prefix].size(); ++x) {
        const int32_t map = level.action[prefix][x];
        if (map < 0) continue;
        std::vector<int64_t> features = {network_.tokens()[problem_.symbol_tokens[x]]};
        for (size_t j = 0; j + 1 < i; ++j) features.push_back(before_[j][states[j]]);
        Rule rule = all_of(features, {{due[1 + map], 1}});
        rule.when.emplace_back(recalled[states[i - 1]], kSlotScale);
        rule.threshold += 1;
        layer.rules.push_back(std::move(rule));
      }
    }
    check_size(layer);
    before_.push_back(before);
    return due;
  }

  // With one level the entries of its state are the logits; otherwise states of all levels are looked up.
  void add_answers(Layer& layer, const std::vector<Features>& slots) {
    const auto token = [&](int32_t state) {
      return problem_.state_tokens[static_cast<size_t>(state)];
    };
    const size_t levels = cascade_.levels.size();
    if (levels == 1) {
      for (size_t prefix = 0; prefix < cascade_.state.size(); ++prefix)
        if (cascade_.state[prefix] >= 0)
          network_.add_logit(token(cascade_.state[prefix]), {{slots[prefix][0], kSlotScale}});
      return;
    }
    const Features answers = network_.add_group(problem_.automaton.num_states());
    for (size_t prefix = 0; prefix < cascade_.state.size(); ++prefix) {
      if (cascade_.state[prefix] < 0) continue;
      const auto states = prefix_states(cascade_, levels, static_cast<int64_t>(prefix));
      std::vector<int64_t> features;
      for (size_t j = 0; j + 1 < levels; ++j) features.push_back(now_[j][states[j]]);
      Rule rule = all_of(features, {{answers[cascade_.state[prefix]], 1}});
      rule.when.emplace_back(slots[static_cast<size_t>(states.back())][0], kSlotScale);
      rule.threshold += 1, rule.margin = 0.25;
      layer.rules.push_back(std::move(rule));
    }
    check_size(layer);
    for (int32_t q = 0; q < problem_.automaton.num_states(); ++q)
      network_.add_logit(token(q), {{answers[q], 1}});
  }

  void check_size(const Layer& layer) const {
    if (static_cast<int64_t>(layer.rules.size()) > kMostRules)
      throw InputError("the automaton of " + problem_.name + " takes a table of " +
                       std::to_string(layer.rules.size()) + " entries in one layer, more than " +
                       std::to_string(kMostRules));
  }

  const Problem& problem_;
  const Cascade& cascade_;
  Network& network_;
  Features parity_;
  std::vector<Features> now_, before_;  // of each level: its state after and before the symbol
};

}  // namespace

Construction automaton_by_cascade(const Problem& problem, const Cascade& cascade,
                                  int64_t num_householder) {
  const int64_t needed = most_factors(cascade);
  if (num_householder == 0) num_householder = needed;
  if (num_householder < needed)
    throw InputError("a layer with " + std::to_string(num_householder) +
                     " factors per token cannot be " + problem.name +
                     ": a permutation of its states takes " + std::to_string(needed));
  const size_t levels = cascade.levels.size();
  Construction c{Network(problem.vocab_size, problem.bos + 1),
                 levels == 1
                     ? "a permutation-reset automaton in one layer (lemma on these, i)"
                     : "a cascade of permutation-reset automata (theorem 2, Krohn and Rhodes)",
                 "", num_householder};
  for (const Cascade::Level& level : cascade.levels)
    c.detail += (c.detail.empty() ? "states of each level: " : ", ") + std::to_string(level.size);
  CascadeNetwork(problem, cascade, c.network).build();
  return c;
}

}  // namespace dp::theory
