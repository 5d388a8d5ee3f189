#include "report/walk.h"

#include <algorithm>
#include <optional>
#include <random>
#include <set>

namespace dp::report {
namespace {

constexpr size_t kLongestWord = 32, kRandomWord = 18;
constexpr int32_t kMostSearched = 200;  // states

// Words to all states that a state leads to: the shortest, and of these the first.
struct Path {
  int32_t to = 0;
  std::vector<int32_t> word;
};
std::vector<Path> paths_from(const Automaton& automaton, int32_t state) {
  std::vector<Path> paths = {{state, {}}};
  std::set<int32_t> found = {state};
  for (size_t i = 0; i < paths.size(); ++i)
    for (int32_t symbol = 0; symbol < automaton.num_symbols(); ++symbol)
      if (const int32_t to = automaton.next(paths[i].to, symbol); found.insert(to).second) {
        Path path{to, paths[i].word};
        path.word.push_back(symbol);
        paths.push_back(std::move(path));
      }
  return paths;
}

// All symbols that lead from one state to another.
struct Edge {
  int32_t from = 0, to = 0;
  std::vector<int32_t> symbols = {};  // at least one
};

// Those of states that the start leads to.
std::vector<Edge> merged_edges(const Automaton& automaton) {
  std::vector<Edge> edges;
  for (const Path& path : paths_from(automaton, automaton.start))
    for (int32_t symbol = 0; symbol < automaton.num_symbols(); ++symbol) {
      const int32_t to = automaton.next(path.to, symbol);
      auto edge = std::ranges::find_if(
          edges, [&](const Edge& it) { return it.from == path.to && it.to == to; });
      if (edge == edges.end()) edge = edges.insert(edges.end(), {path.to, to});
      edge->symbols.push_back(symbol);
    }
  return edges;
}

// Takes edge after edge that it has not taken: of those that keep most states in reach, the nearest.
std::vector<int32_t> word_along_edges(const Automaton& automaton) {
  std::vector<Edge> left = merged_edges(automaton);
  std::vector<size_t> reach(static_cast<size_t>(automaton.num_states()));
  for (const Edge& edge : left)
    if (size_t& states = reach[static_cast<size_t>(edge.to)]; states == 0)
      states = paths_from(automaton, edge.to).size();
  std::vector<int64_t> used(automaton.alphabet.size());
  std::vector<int32_t> word;
  const auto take = [&](int32_t& state, int32_t symbol) {
    word.push_back(symbol);
    ++used[static_cast<size_t>(symbol)];
    const int32_t to = automaton.next(state, symbol);
    std::erase_if(left, [&](const Edge& e) { return e.from == state && e.to == to; });
    state = to;
  };
  for (int32_t state = automaton.start; !left.empty();) {
    const std::vector<Path> paths = paths_from(automaton, state);
    const Path* path = nullptr;
    std::optional<Edge> next;
    for (const Path& candidate : paths)
      for (const Edge& edge : left)
        if (edge.from == candidate.to &&
            (!next || reach[static_cast<size_t>(edge.to)] > reach[static_cast<size_t>(next->to)]))
          next = edge, path = &candidate;
    if (!next || word.size() + path->word.size() + 1 > kLongestWord) break;
    for (const int32_t symbol : path->word) take(state, symbol);
    take(state, *std::ranges::min_element(next->symbols, {}, [&](int32_t symbol) {
           return used[static_cast<size_t>(symbol)];
         }));
  }
  return word;
}

}  // namespace

std::vector<int32_t> example_word(const theory::Problem& problem) {
  if (problem.kind != theory::Problem::Kind::kGroup &&
      problem.automaton.num_states() <= kMostSearched)
    return word_along_edges(problem.automaton);
  std::vector<int32_t> word(kRandomWord);
  std::mt19937 random(1);
  for (int32_t& symbol : word)
    symbol = static_cast<int32_t>(random() % problem.symbol_tokens.size());
  return word;
}

Walk walk_word(theory::Answerer& model, const theory::Problem& problem,
               const std::vector<int32_t>& word) {
  Walk walk{.word = word, .states = {problem.automaton.start}, .answers = {}};
  std::vector<theory::Tokens> tokens = {{problem.bos}};
  for (const int32_t symbol : word) {
    tokens[0].push_back(problem.symbol_tokens[static_cast<size_t>(symbol)]);
    walk.states.push_back(problem.automaton.next(walk.states.back(), symbol));
  }
  const theory::Tokens answers = model.answers(tokens).front();
  for (const int64_t token : answers) {
    const auto found = std::ranges::find(problem.state_tokens, token);
    walk.answers.push_back(found == problem.state_tokens.end()
                               ? -1
                               : static_cast<int32_t>(found - problem.state_tokens.begin()));
  }
  return walk;
}

}  // namespace dp::report
