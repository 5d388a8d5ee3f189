#include "theory/expressivity.h"

#include "theory/languages.h"

namespace dp::theory {
namespace {

Example group_example(const std::string& group, int64_t layers, int64_t num_householder,
                      const std::vector<std::string>& alphabet = {}, const std::string& over = "") {
  std::string name = group;
  if (!over.empty()) name += " over " + over;
  return {name + ", n_h = " + std::to_string(num_householder),
          [=] {
            return compile_group(group, alphabet, {layers, num_householder});
          },
          {}};
}

// S_n by its permutation matrices, also where there is something smaller.
Example symmetric_example(int64_t n) {
  const std::string name = "S" + std::to_string(n);
  return {name + ", n_h = " + std::to_string(n - 1),
          [=] {
            const FiniteGroup group = FiniteGroup::parse(name);
            std::vector<int32_t> all;
            for (int32_t g = 0; g < group.order(); ++g) all.push_back(g);
            Problem problem = group_problem(group, all);
            Construction c = group_in_one_layer(problem, group, permutation_matrices(group));
            return Compiled{std::move(problem), std::move(c)};
          },
          {}};
}

// The elements that move at most so many points, as people write them.
std::vector<std::string> moving_at_most(const std::string& group, int64_t points) {
  const FiniteGroup g = FiniteGroup::parse(group);
  std::vector<std::string> names;
  for (int32_t a = 0; a < g.order(); ++a)
    if (g.permutation(a).moved_points() <= points) names.push_back(g.element_name(a));
  return names;
}

// The points that transpositions move, as states.
Automaton transposed_points(int32_t n) {
  Automaton a;
  for (int32_t q = 0; q < n; ++q)
    a.state_names.push_back(std::to_string(q + 1)), a.accepting.push_back(q == 0);
  for (int32_t i = 0; i < n; ++i)
    for (int32_t j = i + 1; j < n; ++j) {
      a.alphabet.push_back("(" + std::to_string(i + 1) + " " + std::to_string(j + 1) + ")");
      StateMap& moves = a.moves.emplace_back();
      for (int32_t q = 0; q < n; ++q) moves.push_back(q == i ? j : q == j ? i : q);
    }
  return a;
}

std::vector<Example> language_examples(bool rwkv7) {
  std::vector<Example> examples;
  for (const Language& language : example_languages()) {
    if (rwkv7)
      examples.push_back(
          {language.name + ", n = " + std::to_string(language.automaton.num_states()),
           {},
           [automaton = language.automaton] { return automaton; }});
    else
      examples.push_back(
          {language.name,
           [language] { return compile_automaton(language.automaton, language.name, {}); },
           {}});
  }
  return examples;
}

}  // namespace

std::vector<Expressed> expressivity_table() {
  const std::vector<std::string> four = {"(1 2)", "(1 2 3 4)"}, five = {"(1 2)", "(1 2 3 4 5)"};
  std::vector<Expressed> table;

  table.push_back({"1",
                   "DeltaNet, n_h = 1",
                   "S_n, only permutations of 2 points",
                   {group_example("S5", 1, 1, moving_at_most("S5", 2), "transpositions")}});
  table.push_back(
      {"1",
       "RWKV-7",
       "S_n, only permutations of 2 points",
       {{"5 points and their transpositions", {}, [] { return transposed_points(5); }}}});
  Expressed permutations{"1", "DeltaProduct, n_h > 1", "S_n, permutations of n_h + 1 points", {}};
  for (int64_t n = 2; n <= 6; ++n) permutations.examples.push_back(symmetric_example(n));
  permutations.examples.push_back(
      group_example("S5", 1, 2, moving_at_most("S5", 3), "permutations of 3 points"));
  table.push_back(std::move(permutations));
  Expressed orthogonal{
      "1", "DeltaProduct, n_h > 1", "finite groups of O(n_h), or SO(n_h + 1) if n_h is even", {}};
  for (const char* name : {"Z3", "Z5", "Z6", "Z12", "D3", "D5", "D6", "D12", "A4", "S4", "A5"})
    orthogonal.examples.push_back(group_example(name, 1, 2));
  table.push_back(std::move(orthogonal));

  Expressed plane{"2", "DeltaNet, n_h = 1", "Z_n and D_n", {}};
  for (const char* name : {"Z3", "Z5", "Z6", "Z12", "D3", "D5", "D6", "D12"})
    plane.examples.push_back(group_example(name, 2, 1));
  table.push_back(std::move(plane));
  Expressed lemmas{"1 or 2", "DeltaProduct, DeltaNet", "counting modulo d, d = 2 .. 8", {}};
  Expressed recalls{
      "2 or 3", "DeltaProduct, DeltaNet", "any function of the last d tokens, d = 2 .. 8", {}};
  for (int64_t d = 2; d <= 8; ++d)
    for (const int64_t n : {2, 1}) {
      const std::string name = "d = " + std::to_string(d) + ", n_h = " + std::to_string(n);
      lemmas.examples.push_back({name, [=] { return compile_counting(d, {0, n}); }, {}});
      recalls.examples.push_back({name, [=] { return compile_recall({"a", "b"}, d, {0, n}); }, {}});
    }
  table.push_back(std::move(lemmas));
  table.push_back(std::move(recalls));

  table.push_back({"3",
                   "DeltaProduct, n_h > 1",
                   "S_n with a table",
                   {group_example("S4", 3, 2, four, "two generators"),
                    group_example("S5", 3, 2, five, "two generators")}});
  table.push_back({"4",
                   "DeltaNet, n_h = 1",
                   "S_n with a table",
                   {group_example("S3", 4, 1), group_example("S4", 4, 1, four, "two generators"),
                    group_example("S5", 4, 1, five, "two generators")}});
  table.push_back(
      {"f(|Q|)", "Gated DeltaProduct", "regular languages, by cascades", language_examples(false)});
  table.push_back({"1", "products of n RWKV-7 matrices", "regular languages of n states",
                   language_examples(true)});
  return table;
}

}  // namespace dp::theory
