#include "theory/expressivity.h"

#include "theory/constructions/group_in_one_layer.h"
#include "theory/languages.h"

namespace dp::theory {
namespace {

Example group_example(const std::string& group, const CompileOptions& options,
                      const std::vector<std::string>& alphabet = {}, const std::string& over = "") {
  std::string name = group;
  if (!over.empty()) name += " over " + over;
  return {name + ", n_h = " + std::to_string(options.num_householder),
          [=] { return compile_group(group, alphabet, options); }};
}

// S_n by its permutation matrices, also where there is something smaller.
Example symmetric_example(int64_t n) {
  const std::string name = "S" + std::to_string(n);
  return {name + ", n_h = " + std::to_string(n - 1), [=] {
            const FiniteGroup group = FiniteGroup::parse(name);
            std::vector<int32_t> all;
            for (int32_t g = 0; g < group.order(); ++g) all.push_back(g);
            Problem problem = group_problem(group, all);
            Construction c = group_in_one_layer(problem, {permutation_matrices(group)});
            return Compiled{std::move(problem), std::move(c)};
          }};
}

// The elements that move at most so many points, as people write them.
std::vector<std::string> moving_at_most(const std::string& group, int64_t points) {
  const FiniteGroup g = FiniteGroup::parse(group);
  std::vector<std::string> names;
  for (int32_t a = 0; a < g.order(); ++a)
    if (g.permutation(a).moved_points() <= points) names.push_back(g.element_name(a));
  return names;
}

// A language needs n_h = 1 at least; 0: as many as it takes in one layer, or in one for each level.
std::vector<Example> language_examples(const CompileOptions& options) {
  std::vector<Example> examples;
  for (const Language& language : example_languages()) {
    const std::string n_h =
        options.num_householder == 0 ? "" : ", n_h = " + std::to_string(options.num_householder);
    examples.push_back({language.name + n_h, [=] {
                          CompileOptions own = options;
                          // Few states may take fewer layers than the theorem.
                          own.layers = 0;
                          return compile_automaton(language.automaton, language.name, own);
                        }});
  }
  return examples;
}

CompileOptions rwkv7(int64_t layers, int64_t num_householder) {
  return {layers, num_householder, Architecture::kRwkv7};
}

const std::vector<std::string> kFour = {"(1 2)", "(1 2 3 4)"}, kFive = {"(1 2)", "(1 2 3 4 5)"};
constexpr const char* kPlaneGroups[] = {"Z3", "Z5", "Z6", "Z12", "D3", "D5", "D6", "D12"};
constexpr Architecture kDelta = Architecture::kDeltaProduct, kRwkv = Architecture::kRwkv7;

Expressed transpositions(const std::string& model, const std::string& source,
                         Architecture architecture) {
  return {"1",
          model,
          "S_n, only 2-permutations",
          source,
          {group_example("S5", {1, 1, architecture}, moving_at_most("S5", 2), "transpositions")}};
}

Expressed plane_groups(const std::string& model, const std::string& source,
                       Architecture architecture) {
  Expressed plane{"2", model, "Z_n and D_n", source, {}};
  for (const char* name : kPlaneGroups)
    plane.examples.push_back(group_example(name, {2, 1, architecture}));
  plane.examples.push_back(group_example("S3", {2, 1, architecture}));
  return plane;
}

Expressed table_groups(const std::string& model, const std::string& source,
                       Architecture architecture) {
  return {"4",
          model,
          "S_n with a look-up table",
          source,
          {group_example("S3", {4, 1, architecture}),
           group_example("S4", {4, 1, architecture}, kFour, "two generators"),
           group_example("S5", {4, 1, architecture}, kFive, "two generators")}};
}

}  // namespace

std::vector<Expressed> expressivity_table() {
  std::vector<Expressed> table;
  table.push_back(transpositions("(Gated) DeltaNet", "Grazzi et al., theorem 3", kDelta));
  table.push_back(transpositions("RWKV-7", "", kRwkv));
  Expressed permutations{
      "1", "(Gated) DeltaProduct, n_h > 1", "S_n, only (n_h + 1)-permutations", "theorem 1, i", {}};
  for (int64_t n = 3; n <= 6; ++n) permutations.examples.push_back(symmetric_example(n));
  permutations.examples.push_back(
      group_example("S5", {1, 2}, moving_at_most("S5", 3), "permutations of 3 points"));
  table.push_back(std::move(permutations));
  Expressed orthogonal{"1",
                       "(Gated) DeltaProduct, n_h > 1",
                       "finite subgroups of O(n_h), and of SO(n_h + 1) if n_h is even",
                       "theorem on O(n) and SO(n+1)",
                       {}};
  for (const char* name : {"Z3", "Z5", "Z6", "Z12", "D3", "D5", "D6", "D12", "A4", "S4", "A5"})
    orthogonal.examples.push_back(group_example(name, {1, 2}));
  for (const char* name : {"A4xZ2", "S4xZ2", "A5xZ2"})
    orthogonal.examples.push_back(group_example(name, {1, 3}));
  orthogonal.examples.push_back(group_example("A6", {1, 4}));
  table.push_back(std::move(orthogonal));

  table.push_back(plane_groups("(Gated) DeltaNet",
                               "Grazzi et al., theorem 6; theorem on dihedral groups", kDelta));
  table.push_back(plane_groups("RWKV-7", "", kRwkv));

  table.push_back({"3",
                   "(Gated) DeltaProduct, n_h > 1",
                   "S_n with a look-up table",
                   "theorem 1, ii",
                   {group_example("S4", {3, 2}, kFour, "two generators"),
                    group_example("S5", {3, 2}, kFive, "two generators")}});

  table.push_back(table_groups("(Gated) DeltaNet", "theorem 1, iii", kDelta));
  table.push_back(table_groups("RWKV-7", "", kRwkv));
  table.push_back({"4", "RWKV-7", "regular languages with a look-up table",
                   "Peng et al., theorem 3", language_examples(rwkv7(4, 1))});

  table.push_back(
      {"f(|Q|)", "Gated DeltaNet", "regular languages", "theorem 2", language_examples({0, 1})});
  table.push_back({"f(|Q|)", "Gated DeltaProduct, n_h > 1", "regular languages", "theorem 2",
                   language_examples({0, 2})});
  return table;
}

std::vector<Expressed> further_statements() {
  Expressed counting{
      "1 or 2", "DeltaProduct, DeltaNet", "counting modulo d, d = 2 .. 8", "lemma on counting", {}};
  Expressed recalling{"2 or 3",
                      "DeltaProduct, DeltaNet",
                      "any function of the last d tokens, d = 2 .. 8",
                      "lemma on the last tokens",
                      {}};
  for (int64_t d = 2; d <= 8; ++d)
    for (const int64_t n : {2, 1}) {
      const std::string name = "d = " + std::to_string(d) + ", n_h = " + std::to_string(n);
      counting.examples.push_back({name, [=] { return compile_counting(d, {0, n}); }});
      recalling.examples.push_back({name, [=] { return compile_recall({"a", "b"}, d, {0, n}); }});
    }
  std::vector<Expressed> statements = {std::move(counting), std::move(recalling)};
  statements.push_back({"1",
                        "Gated DeltaProduct",
                        "permutation-reset automata, n_h factors for each permutation",
                        "lemma on permutation-reset automata, i",
                        {}});
  statements.push_back(
      {"3", "Gated DeltaProduct, n_h = 2", "permutation-reset automata", "the same, ii", {}});
  statements.push_back({"4", "Gated DeltaNet", "permutation-reset automata", "the same, iii", {}});
  for (const Language& language : example_languages()) {
    if (classify(language.automaton) == AutomatonKind::kGeneral) continue;
    for (int64_t n = 0; n <= 2; ++n)
      statements[static_cast<size_t>(n == 0   ? 2
                                     : n == 2 ? 3
                                              : 4)]
          .examples.push_back(
              {language.name, [=] {
                 return compile_automaton(language.automaton, language.name, {0, n});
               }});
  }
  statements.push_back({"1", "products of RWKV-7's transitions, n_h = n",
                        "regular languages of n states", "theorem on RWKV-7, i",
                        language_examples(rwkv7(1, 0))});
  statements.push_back({"3", "products of RWKV-7's transitions, n_h = 2", "regular languages",
                        "the same, ii", language_examples(rwkv7(3, 2))});
  return statements;
}

}  // namespace dp::theory
