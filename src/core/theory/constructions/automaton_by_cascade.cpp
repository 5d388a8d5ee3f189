#include "theory/constructions/automaton_by_cascade.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "base/error.h"
#include "theory/constructions/counting.h"
#include "theory/constructions/level.h"
#include "theory/constructions/recalling.h"
#include "theory/rwkv7.h"
#include "theory/table.h"

namespace dp::theory {
namespace {

using MapWords = std::set<std::vector<int32_t>>;

// The words of maps that a level can be given: those along paths of what is above it. A node of the paths is a
// prefix; an edge is a symbol, with the map that it means and the prefix that follows.
class MapPaths {
 public:
  struct Edge {
    int32_t map, next;
    auto operator<=>(const Edge&) const = default;
  };
  MapPaths(std::vector<std::vector<Edge>> edges, size_t num_maps, std::string name)
      : edges_(std::move(edges)), num_maps_(num_maps), name_(std::move(name)) {
    std::vector<int32_t> all(edges_.size());
    std::iota(all.begin(), all.end(), 0);
    by_length_.push_back({{{}, std::move(all)}});
  }

  MapWords words(int64_t length) {
    while (static_cast<int64_t>(by_length_.size()) <= length) extend();
    MapWords words;
    for (const auto& [word, ends] : by_length_[static_cast<size_t>(length)]) words.insert(word);
    return words;
  }

 private:
  void extend() {
    const auto length = by_length_.size();
    std::map<std::vector<int32_t>, std::vector<int32_t>> longer;
    for (const auto& [word, ends] : by_length_.back()) {
      std::map<int32_t, std::set<int32_t>> next;
      for (const int32_t node : ends)
        for (const Edge& edge : edges_[static_cast<size_t>(node)]) next[edge.map].insert(edge.next);
      for (const auto& [map, nodes] : next) {
        std::vector<int32_t> extended = word;
        extended.push_back(map);
        longer.emplace(std::move(extended), std::vector<int32_t>(nodes.begin(), nodes.end()));
      }
      if (static_cast<int64_t>(longer.size()) > kMostWords) refuse(length);
    }
    by_length_.push_back(std::move(longer));
  }

  [[noreturn]] void refuse(size_t length) const {
    const double bound = std::pow(static_cast<double>(num_maps_), static_cast<double>(length));
    char size[32];
    std::snprintf(size, sizeof size, "%.3g", bound);
    throw InputError("the automaton of " + name_ +
                     " with so few factors per token takes a table of words of " +
                     std::to_string(length) + " of " + std::to_string(num_maps_) +
                     " maps, of which there may be " + size + ", more than " +
                     std::to_string(kMostWords) + "; use a larger --num-householder");
  }

  std::vector<std::vector<Edge>> edges_;
  size_t num_maps_;
  std::string name_;
  std::vector<std::map<std::vector<int32_t>, std::vector<int32_t>>>
      by_length_;  // word: where it may end
};

LevelPlan plan_level(int64_t start, std::vector<StateMap> maps,
                     std::vector<std::vector<MapPaths::Edge>> edges, const std::string& name) {
  for (auto& list : edges) {
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  auto paths = std::make_shared<MapPaths>(std::move(edges), maps.size(), name);
  return {start, std::move(maps), [paths](int64_t length) { return paths->words(length); }};
}

// Each state has a head with a row for each state, whose keys are functions of at least as many features: refused
// before anything of that size is made.
void check_level_size(int64_t states, const std::vector<StateMap>& maps, int64_t num_householder,
                      double max_memory, const std::string& name) {
  if (states <= kMostCorners) return;
  int64_t factors = num_householder;
  if (factors == 0)
    for (const StateMap& map : maps)
      if (!is_reset(map)) factors = std::max(factors, static_cast<int64_t>(map_steps(map).size()));
  const double bytes = 4.0 * static_cast<double>(states) * static_cast<double>(states) *
                       static_cast<double>(factors + 1) * 32;
  if (bytes <= max_memory) return;
  char sizes[96];
  std::snprintf(sizes, sizeof sizes, "at least %.3g GB, more than the %.3g GB of --max-memory",
                bytes / 1e9, max_memory / 1e9);
  throw InputError("the automaton of " + name + " has " + std::to_string(states) +
                   " states that one level must keep apart, which with " + std::to_string(factors) +
                   " factors per token takes " + sizes);
}

// For each level, which prefixes occur, and where symbols lead from them.
struct CascadePaths {
  std::vector<std::vector<std::vector<MapPaths::Edge>>> edges;  // [level][prefix that occurs]
  std::vector<std::vector<std::vector<int32_t>>> states;        // [levels + 1][prefix that occurs]
  std::vector<std::vector<std::vector<int32_t>>> maps;  // [level][prefix that occurs][symbol]

  CascadePaths(const Cascade& cascade, size_t num_symbols) {
    const size_t levels = cascade.levels.size();
    edges.resize(levels), states.resize(levels + 1), maps.resize(levels);
    std::vector<std::map<std::vector<int32_t>, int32_t>> numbers(levels + 1);
    for (size_t i = 0; i <= levels; ++i) {  // by walking through the first i levels
      const auto reach = [&](std::vector<int32_t> prefix) {
        const auto [at, is_new] =
            numbers[i].try_emplace(prefix, static_cast<int32_t>(states[i].size()));
        if (is_new) states[i].push_back(std::move(prefix));
        return at->second;
      };
      std::vector<int32_t> start = cascade.start();
      start.resize(i);
      reach(std::move(start));
      for (size_t at = 0; at < states[i].size(); ++at) {
        std::vector<MapPaths::Edge> list;
        std::vector<int32_t> row;
        for (size_t x = 0; x < num_symbols; ++x) {
          std::vector<int32_t> next = states[i][at];
          size_t prefix = 0;
          int32_t action = -1;
          for (size_t j = 0; j <= i && j < levels; ++j) {
            const Cascade::Level& level = cascade.levels[j];
            action = level.action[prefix][x];
            if (j == i) break;
            const int32_t before = next[j];
            next[j] = level.maps[static_cast<size_t>(action)][static_cast<size_t>(before)];
            prefix = prefix * static_cast<size_t>(level.size) + static_cast<size_t>(before);
          }
          list.push_back({action, reach(std::move(next))});
          row.push_back(action);
        }
        if (i == levels) continue;
        edges[i].push_back(std::move(list));
        maps[i].push_back(std::move(row));
      }
    }
  }
};

class CascadeNetwork {
 public:
  CascadeNetwork(const Problem& problem, const Cascade& cascade, Network& network,
                 int64_t num_householder, double max_memory)
      : problem_(problem),
        cascade_(cascade),
        network_(network),
        paths_(cascade, problem.symbol_tokens.size()) {
    for (size_t i = 0; i < cascade.levels.size(); ++i) {
      const Cascade::Level& level = cascade.levels[i];
      check_level_size(level.size, level.maps, num_householder, max_memory, problem.name);
      plans_.push_back(plan_level(level.start, level.maps, paths_.edges[i], problem.name));
      points_.emplace_back(level.size, level.maps, Architecture::kDeltaProduct);
    }
  }

  int64_t needed() const {
    int64_t most = 1;
    for (size_t i = 0; i < plans_.size(); ++i)
      most = std::max(most, most_factors(points_[i], plans_[i].maps));
    return most;
  }

  /// Returns the lengths of the levels' blocks.
  std::vector<int64_t> build(int64_t num_householder) {
    const size_t levels = cascade_.levels.size();
    if (levels == 0) {  // a single state: any token says so
      network_.layer_at(0);
      for (int64_t token = 0; token < network_.tokens().size; ++token)
        network_.add_logit(problem_.state_tokens[0], {{network_.tokens()[token], 1}});
      return {};
    }
    std::vector<int64_t> blocks;
    for (size_t i = 0; i < levels; ++i)
      blocks.push_back(block_length(plans_[i], points_[i], num_householder));
    LevelInput input = first_input();
    if (levels == 1 && blocks[0] == 1) {
      std::vector<int64_t> tokens;
      for (const int32_t state : cascade_.state)
        tokens.push_back(state < 0 ? -1 : problem_.state_tokens[static_cast<size_t>(state)]);
      add_answering_level(network_, plans_[0], points_[0], input, tokens);
      return blocks;
    }
    if (levels > 1) parity_ = add_parity(network_, network_.layer_at(0));
    for (size_t i = 0; i < levels; ++i) {
      if (i > 0) input = add_delay(i);
      const AddedLevel added =
          add_level(network_, plans_[i], points_[i], input, blocks[i], num_householder, counts_);
      now_.push_back(added.now), last_layer_ = added.layer;
    }
    add_answers();
    return blocks;
  }

 private:
  LevelInput first_input() const {
    const Features& tokens = network_.tokens();
    LevelInput input{tokens, {tokens[problem_.bos]}, {}, 0};
    for (size_t x = 0; x < problem_.symbol_tokens.size(); ++x)
      input.maps.emplace_back(tokens[problem_.symbol_tokens[x]], cascade_.levels[0].action[0][x]);
    return input;
  }

  TableColumn group_column(const Features& group) const {
    TableColumn column;
    for (int64_t i = 0; i < group.size; ++i) column.terms.push_back({{group[i], 1}});
    return column;
  }

  // A layer that recalls the state of level i-1 before the symbol, and the group of what level i has to do: start,
  // or one of its maps.
  LevelInput add_delay(size_t i) {
    const Cascade::Level &above = cascade_.levels[i - 1], &level = cascade_.levels[i];
    const int64_t bos = network_.tokens()[problem_.bos];
    Layer& layer = network_.layer_at(++last_layer_);
    std::vector<int64_t> what;
    for (int64_t s = 0; s < above.size; ++s) what.push_back(now_.back()[s]);
    const Features recalled = add_recall(network_, layer, what, parity_, 1);
    if (i + 1 < cascade_.levels.size()) {
      const Features before = network_.add_group(above.size);
      layer.rules.push_back(all_of(std::vector{bos}, {{before[above.start], 1}}));
      for (int64_t s = 0; s < above.size; ++s)
        layer.rules.push_back({{{recalled[s], kSlotScale}}, 0.5, 0.4, {{before[s], 1}}});
      before_.push_back(before);
    }

    std::vector<TableColumn> columns(1);
    for (const int64_t token : problem_.symbol_tokens)
      columns[0].terms.push_back({{network_.tokens()[token], 1}});
    for (size_t j = 0; j + 1 < i; ++j) columns.push_back(group_column(before_[j]));
    columns.emplace_back();
    for (int64_t s = 0; s < above.size; ++s)
      columns.back().terms.push_back({{recalled[s], kSlotScale}});
    std::vector<TableRow> rows;
    for (size_t p = 0; p < paths_.states[i].size(); ++p)
      for (size_t x = 0; x < problem_.symbol_tokens.size(); ++x) {
        TableRow row{{static_cast<int32_t>(x)}, paths_.maps[i][p][x]};
        row.values.insert(row.values.end(), paths_.states[i][p].begin(), paths_.states[i][p].end());
        rows.push_back(std::move(row));
      }
    const Features due = network_.add_group(1 + static_cast<int64_t>(level.maps.size()));
    layer.rules.push_back(all_of(std::vector{bos}, {{due[0], 1}}));
    add_table(layer, columns, std::move(rows),
              [&](int32_t map) {
                return Terms{{due[1 + map], 1}};
              },
              {{bos, 1}});
    LevelInput input{due, {due[0]}, {}, ++last_layer_};
    for (size_t m = 0; m < level.maps.size(); ++m)
      input.maps.emplace_back(due[1 + static_cast<int64_t>(m)], static_cast<int32_t>(m));
    return input;
  }

  // The logit of a state counts the levels that agree with it, if no other state's levels all do, too. Otherwise one
  // more layer looks the state up.
  void add_answers() {
    const size_t levels = cascade_.levels.size();
    const auto& prefixes = paths_.states[levels];
    std::vector<TableRow> rows;
    for (const auto& states : prefixes) rows.push_back({states, cascade_.decode(states)});
    const auto num_states = static_cast<size_t>(problem_.automaton.num_states());
    std::vector<std::vector<std::set<int32_t>>> seen(num_states,
                                                     std::vector<std::set<int32_t>>(levels));
    for (const TableRow& row : rows)
      for (size_t j = 0; j < levels; ++j)
        seen[static_cast<size_t>(row.outcome)][j].insert(row.values[j]);
    if (is_told_by_levels(rows, seen)) {
      for (size_t q = 0; q < num_states; ++q) {
        Terms terms;
        for (size_t j = 0; j < levels; ++j)
          for (const int32_t s : seen[q][j]) terms.emplace_back(now_[j][s], 1);
        network_.add_logit(problem_.state_tokens[q], terms);
      }
      return;
    }
    Layer& layer = network_.layer_at(++last_layer_);
    std::vector<TableColumn> columns;
    for (const Features& now : now_) columns.push_back(group_column(now));
    const Features answers = network_.add_group(static_cast<int64_t>(num_states));
    add_table(layer, columns, std::move(rows), [&](int32_t q) { return Terms{{answers[q], 1}}; });
    for (size_t q = 0; q < num_states; ++q)
      network_.add_logit(problem_.state_tokens[q], {{answers[static_cast<int64_t>(q)], 1}});
  }

  // Whether, for every combination of the levels' states that occurs, all levels agree with one state only. Asked
  // level by level, for the states that are still in question.
  bool is_told_by_levels(const std::vector<TableRow>& rows,
                         const std::vector<std::vector<std::set<int32_t>>>& seen) const {
    const size_t levels = cascade_.levels.size();
    std::vector<std::vector<std::vector<bool>>> agree(
        levels);  // [level][its state][automaton's state]
    for (size_t j = 0; j < levels; ++j) {
      agree[j].assign(static_cast<size_t>(cascade_.levels[j].size), std::vector<bool>(seen.size()));
      for (size_t q = 0; q < seen.size(); ++q)
        for (const int32_t s : seen[q][j]) agree[j][static_cast<size_t>(s)][q] = true;
    }
    // By prefixes, so that the states in question are found once for all that begin alike.
    std::map<std::vector<int32_t>, std::vector<int32_t>> open;
    std::vector<int32_t> all(seen.size());
    std::iota(all.begin(), all.end(), 0);
    open[{}] = std::move(all);
    for (size_t j = 0; j < levels; ++j) {
      std::map<std::vector<int32_t>, std::vector<int32_t>> longer;
      for (const TableRow& row : rows) {
        std::vector<int32_t> prefix(row.values.begin(),
                                    row.values.begin() + static_cast<ptrdiff_t>(j) + 1);
        const auto [at, is_new] = longer.try_emplace(prefix);
        if (!is_new) continue;
        prefix.pop_back();
        for (const int32_t q : open.at(prefix))
          if (agree[j][static_cast<size_t>(row.values[j])][static_cast<size_t>(q)])
            at->second.push_back(q);
      }
      open = std::move(longer);
    }
    return std::ranges::all_of(open, [](const auto& item) { return item.second.size() == 1; });
  }

  const Problem& problem_;
  const Cascade& cascade_;
  Network& network_;
  const CascadePaths paths_;
  std::vector<LevelPlan> plans_;
  std::vector<LevelPoints> points_;
  std::map<int64_t, Features> counts_;
  Features parity_;
  std::vector<Features> now_, before_;  // of each level: its state after and before the symbol
  int64_t last_layer_ = 0;
};

}  // namespace

Construction automaton_by_cascade(const Problem& problem, const Cascade& cascade,
                                  int64_t num_householder, double max_memory) {
  Construction c{Network(problem.vocab_size, problem.bos + 1), "", "", num_householder};
  CascadeNetwork network(problem, cascade, c.network, num_householder, max_memory);
  if (num_householder == 0) c.num_householder = network.needed();
  const std::vector<int64_t> blocks = network.build(c.num_householder);
  const bool delayed = std::ranges::any_of(blocks, [](int64_t m) { return m > 1; });
  c.theorem =
      blocks.size() != 1 ? "a cascade of permutation-reset automata (theorem 2, Krohn and Rhodes)"
      : !delayed         ? "a permutation-reset automaton in one layer (lemma on these, i)"
      : c.num_householder == 1
          ? "a permutation-reset automaton by delayed factors, four layers (lemma on these, iii)"
          : "a permutation-reset automaton by delayed factors, three layers (lemma on these, ii)";
  for (size_t i = 0; i < blocks.size(); ++i) {
    c.detail += (c.detail.empty() ? "states of each level: " : ", ") +
                std::to_string(cascade.levels[i].size);
    if (blocks[i] > 1) c.detail += " (blocks of " + std::to_string(blocks[i]) + ")";
  }
  return c;
}

Construction automaton_by_maps(const Problem& problem, int64_t num_householder, double max_memory) {
  const Automaton& automaton = problem.automaton;
  check_level_size(automaton.num_states(), automaton.moves, num_householder, max_memory,
                   problem.name);
  std::vector<StateMap> maps;
  std::vector<MapPaths::Edge> edges;
  Construction c{Network(problem.vocab_size, problem.bos + 1, Architecture::kRwkv7), "", "",
                 num_householder};
  const Features& tokens = c.network.tokens();
  LevelInput input{tokens, {tokens[problem.bos]}, {}, 0};
  for (size_t x = 0; x < automaton.moves.size(); ++x) {
    auto at = std::ranges::find(maps, automaton.moves[x]);
    const auto number = static_cast<int32_t>(at - maps.begin());
    if (at == maps.end()) maps.push_back(automaton.moves[x]);
    edges.push_back({number, 0});
    input.maps.emplace_back(tokens[problem.symbol_tokens[x]], number);
  }
  const LevelPoints points(automaton.num_states(), maps, Architecture::kRwkv7);
  const LevelPlan plan = plan_level(automaton.start, std::move(maps), {edges}, problem.name);
  if (num_householder == 0) c.num_householder = most_factors(points, plan.maps);
  const int64_t m = block_length(plan, points, c.num_householder);
  c.detail = "swaps and copies of states";
  if (m == 1) {
    add_answering_level(c.network, plan, points, input, problem.state_tokens);
    c.theorem = "products of RWKV-7's transitions, one layer (theorem on these, i)";
    return c;
  }
  std::map<int64_t, Features> counts;
  const AddedLevel added = add_level(c.network, plan, points, input, m, c.num_householder, counts);
  for (int64_t q = 0; q < points.size(); ++q)
    c.network.add_logit(problem.state_tokens[static_cast<size_t>(q)], {{added.now[q], 1}});
  c.theorem =
      c.num_householder == 1
          ? "products of RWKV-7's transitions, delayed, four layers (theorem on these, iii)"
          : "products of RWKV-7's transitions, delayed, three layers (theorem on these, ii)";
  c.detail += ", blocks of " + std::to_string(m);
  return c;
}

}  // namespace dp::theory
