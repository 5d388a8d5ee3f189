#include "theory/constructions/level.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>

#include "theory/constructions/counting.h"
#include "theory/constructions/recalling.h"
#include "theory/householder.h"
#include "theory/table.h"

namespace dp::theory {
namespace {

constexpr double kOutvote = 4;  // weight of a feature that a state's own entries must not outvote

// What a factor does to the points, leaving out the signs of unit vectors.
Matrix factor_matrix(const LevelFactor& factor, size_t n) {
  if (factor.kind == LevelFactor::Kind::kReflect) return householder({2, factor.k});
  const auto from = static_cast<size_t>(factor.from), to = static_cast<size_t>(factor.to);
  Matrix m = identity(n);
  m(from, from) = 0, m(to, from) = 1;
  if (factor.kind == LevelFactor::Kind::kSwap) m(to, to) = 0, m(from, to) = 1;
  return m;
}

// What happens to the state at one feature, and how it is read there.
struct LevelStep {
  int64_t feature;
  bool start = false;
  LevelFactors factors = {};
  std::optional<Matrix> pending = {};  // the state is read as if this had been applied, too
};

void write_point(Head& head, int64_t feature, Vector point) {
  const bool flip = std::accumulate(point.begin(), point.end(), 0.0) < 0;
  if (flip)
    for (double& entry : point) entry = -entry;
  head.write(feature, 0, std::move(point));
  head.value(feature, 0, {flip ? -1.0 : 1.0});
}

// A head for each thing that is read of the state.
std::vector<int64_t> add_heads(Network& network, Layer& layer, const LevelPoints& points,
                               int64_t start, const Features& driver,
                               const std::vector<LevelStep>& steps) {
  const int64_t n = points.dimension();
  std::vector<int64_t> slots;
  for (const Vector& read : points.queries()) {
    const Features slot = network.add_slots(1);
    slots.push_back(slot[0]);
    Head& head = layer.heads.emplace_back(n, points.reading(), driver, slot);
    for (const LevelStep& step : steps) {
      Vector query = read;
      if (step.pending) query = transpose(*step.pending) * query;
      if (const double size = length(query); size > 0.5) {
        for (double& entry : query) entry /= size;
        head.query(step.feature, std::move(query));
      }
      if (step.start) write_point(head, step.feature, points.point(start));
      int64_t number = 0;
      for (const LevelFactor& factor : step.factors) {
        if (factor.kind == LevelFactor::Kind::kReset) {
          head.reset(step.feature);
          write_point(head, step.feature, points.point(factor.to));
        } else if (factor.kind == LevelFactor::Kind::kCopy) {
          head.copy(step.feature, number, factor.from, factor.to);
        } else if (factor.kind == LevelFactor::Kind::kSwap) {
          head.swap(step.feature, number, factor.from, factor.to);
        } else {
          head.reflect(step.feature, number, factor.k);
        }
        ++number;
      }
    }
  }
  return slots;
}

// The heads of a level in one layer, and the slots that they write.
std::vector<int64_t> add_direct_heads(Network& network, const LevelPlan& plan,
                                      const LevelPoints& points, const LevelInput& input) {
  std::vector<LevelStep> steps;
  for (const int64_t feature : input.starts) steps.push_back({feature, true});
  for (const auto& [feature, map] : input.maps)
    steps.push_back({feature, false, points.factors(plan.maps[static_cast<size_t>(map)])});
  return add_heads(network, network.layer_at(input.ready), points, plan.start, input.driver, steps);
}

AddedLevel add_direct_level(Network& network, const LevelPlan& plan, const LevelPoints& points,
                            const LevelInput& input) {
  const auto slots = add_direct_heads(network, plan, points, input);
  const Features now = network.add_group(points.size());
  for (int64_t q = 0; q < points.size(); ++q)
    for (const Terms& terms : points.state_terms(slots, q))
      network.layer_at(input.ready)
          .rules.push_back({terms, points.threshold(1), points.margin(1), {{now[q], 1}}});
  return {now, input.ready};
}

// The product of a word of maps, the first acting first.
StateMap product(const std::vector<StateMap>& maps, std::span<const int32_t> word, size_t n) {
  StateMap result(n);
  std::iota(result.begin(), result.end(), 0);
  for (const int32_t map : word) result = compose(maps[static_cast<size_t>(map)], result);
  return result;
}

// What is due at a token: factors to apply, and what is still missing of the block before.
struct Due {
  LevelFactors apply;
  std::vector<double> pending;  // a matrix, row by row; empty: the identity
  bool operator<(const Due& other) const {
    return std::tie(apply, pending) < std::tie(other.apply, other.pending);
  }
};

// Part `place` (1 .. m) of the factors of a map, and the product of the parts after it.
Due part_of(const LevelFactors& factors, int64_t place, int64_t num_householder, size_t dimension) {
  const size_t n = factors.size(),
               begin = std::min(n, static_cast<size_t>((place - 1) * num_householder)),
               end = std::min(n, static_cast<size_t>(place * num_householder));
  Due due{{factors.begin() + static_cast<ptrdiff_t>(begin),
           factors.begin() + static_cast<ptrdiff_t>(end)},
          {}};
  if (end == n) return due;
  Matrix rest = identity(dimension);
  for (size_t i = end; i < n; ++i) rest = factor_matrix(factors[i], dimension) * rest;
  due.pending.assign(rest.values().begin(), rest.values().end());
  return due;
}

// Numbers what comes up, in the order of that.
template <class Key>
class Numbering {
 public:
  int32_t operator()(const Key& key) {
    const auto [at, is_new] = numbers_.try_emplace(key, static_cast<int32_t>(keys_.size()));
    if (is_new) keys_.push_back(key);
    return at->second;
  }
  const std::vector<Key>& keys() const { return keys_; }

 private:
  std::map<Key, int32_t> numbers_;
  std::vector<Key> keys_;
};

class DelayedLevel {
 public:
  DelayedLevel(Network& network, const LevelPlan& plan, const LevelPoints& points,
               const LevelInput& input, int64_t m, int64_t num_householder, const Features& count)
      : network_(network),
        plan_(plan),
        points_(points),
        input_(input),
        m_(m),
        num_householder_(num_householder),
        count_(count),
        table_layer_(std::max(input.ready, counter_layers(2 * m, num_householder))) {}

  AddedLevel add() {
    Layer& layer = network_.layer_at(table_layer_);
    // What is recalled: which map a token was, or that it was BOS.
    const auto start_code = static_cast<int64_t>(plan_.maps.size());
    std::vector<CodedFeature> what;
    for (const int64_t feature : input_.starts) what.push_back({feature, start_code});
    for (const auto& [feature, map] : input_.maps) what.push_back({feature, map});
    const auto recall_column = [&](int64_t place, bool previous) {
      const Features slots =
          add_place_recall(network_, layer, what, start_code + 1, count_, place, previous);
      TableColumn column;
      for (int64_t code = 0; code <= start_code; ++code)
        column.terms.push_back({{slots[code], kSlotScale}});
      return column;
    };
    TableColumn place;
    for (int64_t i = 1; i <= m_; ++i)
      place.terms.push_back({{count_[i], 1}, {count_[(i + m_) % (2 * m_)], 1}});
    std::vector<TableColumn> before = {place}, current = {place};
    for (int64_t i = 1; i <= m_; ++i) {
      before.push_back(recall_column(i, true));
      current.push_back(recall_column(i, false));
    }
    first_block_ = before.back().terms.back();  // BOS at place m of the block before
    add_due(layer, before);
    add_current_products(layer, current);
    return add_state();
  }

 private:
  size_t size() const { return static_cast<size_t>(points_.size()); }
  Terms bos_terms() const {
    Terms terms;
    for (const int64_t feature : input_.starts) terms.emplace_back(feature, 1);
    return terms;
  }
  void add_bos_rules(Layer& layer, int64_t then) const {
    for (const int64_t feature : input_.starts)
      layer.rules.push_back(all_of(std::vector{feature}, {{then, 1}}));
  }

  // The block before determines what is applied now and what is pending.
  void add_due(Layer& layer, const std::vector<TableColumn>& columns) {
    std::vector<TableRow> rows;
    const int32_t nothing = due_({});
    for (const std::vector<int32_t>& word : plan_.words(m_)) {
      const LevelFactors factors = points_.factors(product(plan_.maps, word, size()));
      for (int64_t i = 1; i <= m_; ++i) {
        TableRow row{{static_cast<int32_t>(i - 1)}, 0};
        row.values.insert(row.values.end(), word.begin(), word.end());
        row.outcome =
            due_(part_of(factors, i, num_householder_, static_cast<size_t>(points_.dimension())));
        rows.push_back(std::move(row));
      }
    }
    due_features_ = network_.add_group(1 + static_cast<int64_t>(due_.keys().size()));
    const auto then = [&](int32_t due) { return Terms{{due_features_[1 + due], 1}}; };
    add_bos_rules(layer, due_features_[0]);
    layer.rules.push_back({first_block_, 0.5, 0.5, then(nothing)});
    Terms unless = bos_terms();
    unless.insert(unless.end(), first_block_.begin(), first_block_.end());
    add_table(layer, columns, std::move(rows), then, unless);
  }

  // The maps of the current block so far, as one map.
  void add_current_products(Layer& layer, const std::vector<TableColumn>& columns) {
    std::vector<std::vector<TableRow>> rows(static_cast<size_t>(m_));
    for (int64_t i = 1; i <= m_; ++i)
      for (const std::vector<int32_t>& word : plan_.words(i))
        rows[static_cast<size_t>(i - 1)].push_back(
            {word, current_(product(plan_.maps, word, size()))});
    current_features_ = network_.add_group(1 + static_cast<int64_t>(current_.keys().size()));
    add_bos_rules(layer, current_features_[0]);
    for (int64_t i = 1; i <= m_; ++i) {
      Terms unless = bos_terms();
      // Not at another place: the count is at one of the others.
      for (int64_t j = 1; j <= m_; ++j) {
        const Terms& other = columns[0].terms[static_cast<size_t>(j - 1)];
        if (j != i) unless.insert(unless.end(), other.begin(), other.end());
      }
      add_table(
          layer, {columns.begin() + 1, columns.begin() + 1 + i},
          std::move(rows[static_cast<size_t>(i - 1)]),
          [&](int32_t map) {
            return Terms{{current_features_[1 + map], 1}};
          },
          unless);
    }
  }

  AddedLevel add_state() {
    const int64_t index = table_layer_ + 1;
    Layer& layer = network_.layer_at(index);
    const auto n = static_cast<size_t>(points_.dimension());
    std::vector<LevelStep> steps = {{due_features_[0], true}};
    double least = 1;  // how short a state may be read
    for (size_t i = 0; i < due_.keys().size(); ++i) {
      const Due& due = due_.keys()[i];
      LevelStep step{due_features_[1 + static_cast<int64_t>(i)], false, due.apply};
      if (!due.pending.empty()) {
        Matrix pending(n, n);
        for (size_t r = 0; r < n; ++r) {
          double square = 0;
          for (size_t c = 0; c < n; ++c) {
            pending(r, c) = due.pending[r * n + c];
            square += pending(r, c) * pending(r, c);
          }
          if (square > 1.5) least = std::min(least, 1 / std::sqrt(square));
        }
        step.pending = std::move(pending);
      }
      steps.push_back(std::move(step));
    }
    const auto slots = add_heads(network_, layer, points_, plan_.start, due_features_, steps);
    const Features now = network_.add_group(points_.size());
    layer.rules.push_back(all_of(std::vector{current_features_[0]}, {{now[plan_.start], 1}}));
    // The current block's map takes state q to state r.
    for (int64_t r = 0; r < points_.size(); ++r) {
      Terms constant;
      for (int64_t q = 0; q < points_.size(); ++q) {
        Terms terms;
        for (size_t c = 0; c < current_.keys().size(); ++c) {
          const StateMap& map = current_.keys()[c];
          if (map[static_cast<size_t>(q)] != r) continue;
          const int64_t feature = current_features_[1 + static_cast<int64_t>(c)];
          if (!is_reset(map))
            terms.emplace_back(feature, kOutvote);
          else if (q == 0)
            constant.emplace_back(feature, 1);
        }
        if (terms.empty()) continue;
        for (const Terms& own : points_.state_terms(slots, q)) {
          Rule rule{
              terms, kOutvote + points_.threshold(least), points_.margin(least), {{now[r], 1}}};
          rule.when.insert(rule.when.end(), own.begin(), own.end());
          layer.rules.push_back(std::move(rule));
        }
      }
      if (!constant.empty()) layer.rules.push_back({std::move(constant), 0.5, 0.5, {{now[r], 1}}});
    }
    return {now, index};
  }

  Network& network_;
  const LevelPlan& plan_;
  const LevelPoints& points_;
  const LevelInput& input_;
  const int64_t m_, num_householder_;
  const Features count_;
  const int64_t table_layer_;
  Terms first_block_;
  Numbering<Due> due_;
  Numbering<StateMap> current_;
  Features due_features_, current_features_;
};

}  // namespace

int64_t block_length(const LevelPlan& plan, const LevelPoints& points, int64_t num_householder) {
  if (most_factors(points, plan.maps) <= num_householder) return 1;
  for (int64_t m = 2;; ++m) {
    std::set<StateMap> products;
    for (const auto& word : plan.words(m))
      products.insert(product(plan.maps, word, static_cast<size_t>(points.size())));
    if (most_factors(points, {products.begin(), products.end()}) <= m * num_householder) return m;
  }
}

AddedLevel add_level(Network& network, const LevelPlan& plan, const LevelPoints& points,
                     const LevelInput& input, int64_t m, int64_t num_householder,
                     std::map<int64_t, Features>& counts) {
  if (m == 1) return add_direct_level(network, plan, points, input);
  if (!counts.contains(m)) counts[m] = add_counter(network, 2 * m, num_householder);
  return DelayedLevel(network, plan, points, input, m, num_householder, counts.at(m)).add();
}

void add_answering_level(Network& network, const LevelPlan& plan, const LevelPoints& points,
                         const LevelInput& input, const std::vector<int64_t>& tokens) {
  std::vector<Terms> terms;
  if (points.is_polygon()) {
    const auto slots = add_direct_heads(network, plan, points, input);
    for (int64_t q = 0; q < points.size(); ++q)
      terms.push_back(points.state_terms(slots, q).front());
  } else {  // unit vectors of any sign: rules, which only logits come after
    const Features now = add_direct_level(network, plan, points, input).now;
    for (int64_t q = 0; q < points.size(); ++q) terms.push_back({{now[q], 1}});
  }
  for (size_t q = 0; q < tokens.size(); ++q)
    if (tokens[q] >= 0) network.add_logit(tokens[q], terms[q]);
}

}  // namespace dp::theory
