#include "theory/problem.h"

#include <numeric>

#include "base/error.h"
#include "base/quote.h"

namespace dp::theory {

int32_t find_element(const FiniteGroup& group, const std::string& name, const std::string& origin) {
  for (int32_t g = 0; g < group.order(); ++g)
    if (group.element_name(g) == name) return g;
  if (name.starts_with("(")) {
    const Permutation permutation = Permutation::parse(name, group.degree());
    if (const auto found = group.find(permutation)) return *found;
  }
  throw InputError(origin + ": " + quote(name) + " is not an element of " + group.name() +
                   ", whose elements are called " + group.element_name(0) + ", " +
                   group.element_name(group.order() - 1) + " and the like");
}

Problem group_problem(const FiniteGroup& group, const std::vector<int32_t>& alphabet) {
  Problem problem;
  problem.kind = Problem::Kind::kGroup;
  problem.name = problem.group = group.name();
  problem.bos = group.order();
  problem.vocab_size = problem.bos + 1;
  problem.state_tokens.resize(static_cast<size_t>(group.order()));
  std::iota(problem.state_tokens.begin(), problem.state_tokens.end(), 0);
  Automaton& automaton = problem.automaton;
  automaton.accepting.assign(static_cast<size_t>(group.order()), false);
  for (int32_t g = 0; g < group.order(); ++g)
    automaton.state_names.push_back(group.element_name(g));
  for (const int32_t x : alphabet) {
    problem.symbol_tokens.push_back(x);
    automaton.alphabet.push_back(group.element_name(x));
    StateMap& moves = automaton.moves.emplace_back();
    for (int32_t g = 0; g < group.order(); ++g) moves.push_back(group.multiply(x, g));
  }
  return problem;
}

Problem automaton_problem(Automaton automaton, Problem::Kind kind, std::string name) {
  Problem problem;
  problem.kind = kind;
  problem.name = std::move(name);
  problem.bos = automaton.num_symbols();
  problem.vocab_size = problem.bos + 1 + automaton.num_states();
  for (int64_t x = 0; x < problem.bos; ++x) problem.symbol_tokens.push_back(x);
  for (int64_t q = 0; q < automaton.num_states(); ++q)
    problem.state_tokens.push_back(problem.bos + 1 + q);
  problem.automaton = std::move(automaton);
  return problem;
}

Automaton counting_automaton(int64_t d) {
  Automaton a;
  a.alphabet = {"."};
  a.moves.emplace_back();
  for (int64_t i = 0; i < d; ++i) {
    a.state_names.push_back(std::to_string(i));
    a.accepting.push_back(i == 0);
    a.moves[0].push_back(static_cast<int32_t>((i + 1) % d));
  }
  return a;
}

Automaton recall_automaton(const std::vector<std::string>& alphabet, int64_t d) {
  constexpr int64_t kMost = 5000;
  const auto s = static_cast<int64_t>(alphabet.size());
  Automaton a;
  a.alphabet = alphabet;
  a.moves.resize(alphabet.size());
  // Words by length, then as numbers whose last symbol counts least.
  int64_t first = 0, words = 1;
  for (int64_t length = 0; length <= d; ++length, first += words, words *= s) {
    if (first + words > kMost)
      throw InputError("the last " + std::to_string(d) + " of " + std::to_string(s) +
                       " symbols can be more than " + std::to_string(kMost) + " words");
    for (int64_t word = 0; word < words; ++word) {
      std::string name;
      for (int64_t i = 0, rest = word; i < length; ++i, rest /= s)
        name = alphabet[static_cast<size_t>(rest % s)] + name;
      a.state_names.push_back(length == 0 ? "nothing" : name);
      a.accepting.push_back(false);
      for (int64_t x = 0; x < s; ++x) {
        const int64_t next =
            length < d ? first + words + word * s + x : first + (word * s + x) % words;
        a.moves[static_cast<size_t>(x)].push_back(static_cast<int32_t>(next));
      }
    }
  }
  return a;
}

}  // namespace dp::theory
