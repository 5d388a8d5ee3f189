// Every construction against the algebra: all short words, random words, and one long one.
#include <gtest/gtest.h>

#include "algebra/regular_expression.h"
#include "base/error.h"
#include "base/test_input_error.h"
#include "theory/compile.h"
#include "theory/constructions/group_in_one_layer.h"
#include "theory/languages.h"
#include "theory/random_automata.h"
#include "theory/verify.h"

namespace dp::theory {
namespace {

// Words as `all`, then 20 of 200 symbols, then one of `length`.
void expect_exact(const Compiled& compiled, int64_t most_words = 3000, int64_t length = 5000) {
  SCOPED_TRACE(compiled.problem.name +
               ", n_h = " + std::to_string(compiled.construction.num_householder) + ", " +
               compiled.construction.theorem);
  VerifyOptions options;
  options.most_words = most_words;
  options.random_words = 20, options.random_length = 200, options.long_length = length;
  const VerifyResult result =
      verify(*make_answerer(compiled.weights().model()), compiled.problem, options);
  EXPECT_GT(result.words_length, 0);
  if (result.first_error)
    ADD_FAILURE() << "wrong at position " << result.first_error->position << ": answered "
                  << result.first_error->answered << ", expected " << result.first_error->expected;
  EXPECT_EQ(result.long_length, length);
}

Compiled group(const std::string& name, int64_t layers = 0, int64_t num_householder = 0,
               const std::vector<std::string>& alphabet = {}) {
  return compile_group(name, alphabet, {layers, num_householder});
}

TEST(OneLayer, SymmetricGroups) {
  for (const int64_t n : {2, 3, 4, 5}) {
    const std::string name = "S" + std::to_string(n);
    const FiniteGroup s = FiniteGroup::parse(name);
    std::vector<int32_t> all(static_cast<size_t>(s.order()));
    for (int32_t g = 0; g < s.order(); ++g) all[static_cast<size_t>(g)] = g;
    Problem problem = group_problem(s, all);
    Construction c = group_in_one_layer(problem, {permutation_matrices(s)});
    EXPECT_EQ(c.num_householder, n - 1);
    expect_exact({problem, std::move(c)}, 15000);
  }
}

TEST(OneLayer, GroupsOfRotationsAndReflections) {
  for (const char* name :
       {"Z1", "Z3", "Z5", "Z6", "Z12", "D1", "D2", "D3", "D5", "D6", "D12", "A4", "S4", "A5"}) {
    const Compiled compiled = group(name);
    EXPECT_LE(compiled.construction.num_householder, 2);
    EXPECT_EQ(compiled.construction.network.num_layers(), 1);
    expect_exact(compiled);
  }
}

TEST(OneLayer, FewerReflectionsForFewerElements) {
  const Compiled compiled = group("S5", 0, 0, {"(1 2)", "(2 3)", "(3 4)", "(4 5)"});
  EXPECT_EQ(compiled.construction.num_householder, 1);
  expect_exact(compiled);
}

TEST(OneLayer, ProductsOfGroups) { expect_exact(group("S3xZ2")); }

TEST(TwoLayers, PlaneGroupsWithOneReflection) {
  for (const char* name : {"Z3", "Z5", "Z6", "Z12", "D3", "D5", "D6", "D12"}) {
    const Compiled compiled = group(name, 2);
    EXPECT_EQ(compiled.construction.num_householder, 1);
    EXPECT_EQ(compiled.construction.network.num_layers(), 2);
    expect_exact(compiled);
  }
}

TEST(Lemmas, CountingModuloD) {
  for (int64_t d = 2; d <= 8; ++d)
    for (const int64_t n : {1, 2}) {
      const Compiled compiled = compile_counting(d, {0, n});
      EXPECT_EQ(compiled.construction.network.num_layers(), n == 1 && d > 2 ? 2 : 1);
      expect_exact(compiled);
    }
}

TEST(Lemmas, RecallingTheLastTokens) {
  for (int64_t d = 2; d <= 8; ++d)
    for (const int64_t n : {1, 2}) expect_exact(compile_recall({"a", "b"}, d, {0, n}));
  expect_exact(compile_recall({"a", "b", "c"}, 4, {}));
}

TEST(DelayedFactors, ThreeAndFourLayers) {
  const std::vector<std::string> five = {"(1 2)", "(1 2 3 4 5)"}, four = {"(1 2)", "(1 2 3 4)"};
  struct Case {
    const char* group;
    int64_t layers, num_householder;
    std::vector<std::string> alphabet;
  };
  for (const Case& c :
       {Case{"S3", 4, 1, {}}, Case{"S4", 4, 1, four}, Case{"S4", 3, 2, four},
        Case{"S5", 4, 1, five}, Case{"S5", 3, 2, five}, Case{"A5", 4, 1, {"(1 2 3)", "(3 4 5)"}}}) {
    const Compiled compiled = group(c.group, c.layers, c.num_householder, c.alphabet);
    EXPECT_EQ(compiled.construction.network.num_layers(), c.layers);
    expect_exact(compiled);
  }
}

TEST(Cascades, RegularLanguages) {
  for (const Language& language : example_languages())
    expect_exact(compile_automaton(language.automaton, language.name, {}));
}

TEST(Cascades, ASingleState) {
  expect_exact(compile_automaton(parse_regular_expression("[ab]*"), "everything", {}));
  expect_exact(compile_automaton(minimised(counting_automaton(1)), "one state", {}));
}

TEST(Cascades, OneLayerIfPermutationsAndResetsAreAll) {
  for (const Language& language : example_languages()) {
    SCOPED_TRACE(language.name);
    const Compiled compiled = compile_automaton(language.automaton, language.name, {});
    const bool simple = classify(language.automaton) != AutomatonKind::kGeneral;
    EXPECT_EQ(compiled.construction.network.num_layers() == 1, simple);
  }
}

// Automata with a level that permutes inside a cascade, at their smallest n_h and at 1.
TEST(Cascades, RandomAutomataWithAnyNumberOfFactors) {
  int64_t delayed = 0;
  for (int64_t i = 0; i < 8; ++i) {
    const RandomAutomaton drawn = draw_automaton(7, i);
    for (const int64_t n : {0, 1}) {
      const Compiled compiled =
          compile_automaton(drawn.automaton, "automaton " + std::to_string(i), {0, n});
      delayed += compiled.construction.detail.find("blocks") != std::string::npos;
      expect_exact(compiled, 400, 1000);
    }
  }
  EXPECT_GE(delayed, 2);
}

TEST(Cascades, FourLayersWithOneFactorForAPermutationResetAutomaton) {
  for (const Language& language : example_languages()) {
    if (classify(language.automaton) == AutomatonKind::kGeneral) continue;
    SCOPED_TRACE(language.name);
    for (const int64_t n : {1, 2}) {
      const Compiled compiled = compile_automaton(language.automaton, language.name, {0, n});
      const bool delayed = compiled.construction.detail.find("blocks") != std::string::npos;
      EXPECT_EQ(compiled.construction.network.num_layers(), !delayed ? 1 : n == 1 ? 4 : 3);
    }
  }
  // All permutations of five states, and a reset.
  Automaton all;
  all.alphabet = {"s", "c", "r"};
  all.moves = {{1, 0, 2, 3, 4}, {1, 2, 3, 4, 0}, {2, 2, 2, 2, 2}};
  all.accepting = {true, false, false, false, false};
  for (int q = 0; q < 5; ++q) all.state_names.push_back(std::to_string(q));
  for (const auto& [n, layers] : {std::pair{1, 4}, {2, 3}, {3, 3}, {4, 1}}) {
    const Compiled compiled = compile_automaton(all, "five points", {0, n});
    EXPECT_EQ(compiled.construction.network.num_layers(), layers) << n;
    expect_exact(compiled, 2500);
  }
}

TEST(Cascades, CountingLevels) {
  for (const char* expression : {"a{20}", "[ab]*a{20}[ab]*", "(a{24}b)*", "a{100}", "([ab]*b)?a{20}"})
    for (const int64_t n : {0, 1}) {
      const Compiled compiled =
          compile_automaton(parse_regular_expression(expression), expression, {0, n});
      EXPECT_LE(compiled.construction.num_householder, 2);
      expect_exact(compiled);
    }
  Automaton cycle = counting_automaton(2000);
  cycle.accepting[0] = true;
  const Compiled compiled = compile_automaton(cycle, "2000 states", {});
  EXPECT_EQ(compiled.construction.num_householder, 2);
  expect_exact(compiled);
}

TEST(Rwkv7, GroupsAndLanguages) {
  const auto compile = [](const std::string& name, int64_t layers,
                          const std::vector<std::string>& alphabet = {}) {
    return compile_group(name, alphabet, {layers, 1, Architecture::kRwkv7});
  };
  std::vector<Compiled> models;
  models.push_back(compile("S5", 1, {"(1 2)", "(2 3)", "(3 4)", "(1 5)"}));
  models.push_back(compile("Z5", 2));
  models.push_back(compile("D6", 2));
  models.push_back(compile("S5", 4, {"(1 2)", "(1 2 3 4 5)"}));
  for (const Compiled& model : models) {
    EXPECT_EQ(model.weights().config.architecture, Architecture::kRwkv7);
    expect_exact(model);
  }
  for (const Language& language : example_languages())
    for (const int64_t n : {0, 1, 2}) {
      const Compiled compiled =
          compile_automaton(language.automaton, language.name, {0, n, Architecture::kRwkv7});
      const int64_t layers = compiled.construction.network.num_layers();
      EXPECT_TRUE(layers == 1 || layers == (n == 1 ? 4 : 3)) << layers;
      EXPECT_FALSE(compiled.weights().config.use_forget_gate);
      expect_exact(compiled, 200, 1000);
    }
}

TEST(OneLayer, GroupsOfMoreDimensionsAndOfSeveralHeads) {
  struct Case {
    const char* name;
    int64_t num_householder;
    const char* detail;
  };
  for (const Case& c :
       {Case{"A5xZ2", 3, "rotations of the icosahedron and their negatives"},
        Case{"S4xZ2", 3, "rotations of the cube and their negatives"},
        Case{"A6", 4, "permutation matrices on the vectors of sum 0, with the sign"},
        Case{"S3xZ2", 0, "rotations and reflections of the plane"},
        Case{"Z2xZ2", 0, "permutation matrices; permutation matrices"},
        Case{"A5xZ3", 0, "rotations of the icosahedron; rotations of the plane"}}) {
    const Compiled compiled = group(c.name, 1, c.num_householder);
    EXPECT_EQ(compiled.construction.detail, c.detail);
    expect_exact(compiled, 1000);
  }
}

TEST(OneLayer, GroupsOfMatrices) {
  const MatrixGroup quaternions = parse_matrix_group(
      R"({"generators": {"i": [[0,-1,0,0],[1,0,0,0],[0,0,0,-1],[0,0,1,0]],
                         "j": [[0,0,-1,0],[0,0,0,1],[1,0,0,0],[0,-1,0,0]]}})",
      "q8.json");
  EXPECT_EQ(quaternions.automaton.num_states(), 8);
  const Compiled compiled = compile_matrices(quaternions, "Q8", {});
  EXPECT_EQ(compiled.construction.num_householder, 4);
  expect_exact(compiled);
  for (const auto& [text, reason] :
       {std::pair{R"({"generators": {"a": [[1, 0.5], [0, 1]]}})", "orthogonal"},
        {R"({"generators": {"a": [[0.6, -0.8], [0.8, 0.6]]}})", "more than 5040"},
        {R"({"generators": {"a": [[1, 0]]}})", "square"},
        {R"({"generators": {}})", "generators"}})
    try {
      parse_matrix_group(text, "m.json");
      ADD_FAILURE() << "accepted: " << text;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
}

TEST(Compile, BfloatWeights) {
  for (const char* name : {"S3", "A5", "D5"}) {
    const Compiled compiled = group(name);
    VerifyOptions options;
    options.most_words = 3000, options.random_words = 10, options.random_length = 100,
    options.long_length = 2000;
    const auto answerer = make_answerer(compiled.weights(true).model());
    EXPECT_FALSE(verify(*answerer, compiled.problem, options).first_error) << name;
  }
}

TEST(Compile, RefusesBySizeAndWithTheSize) {
  Automaton cycle = counting_automaton(10007);  // a prime
  EXPECT_NE(input_error([&] {
              compile_automaton(cycle, "a cycle", {});
            }).find("10007 states that one level must keep apart"),
            std::string::npos);
  EXPECT_NE(input_error([&] {
              compile_automaton(cycle, "a cycle", {.max_states = 10000});
            }).find("--max-states"),
            std::string::npos);
  EXPECT_NE(input_error([&] {
              compile_automaton(parse_regular_expression("[ab]*a[ab]{5}"), "sixth",
                                {.max_memory = 1e5});
            }).find("more than the 0.0001 GB of --max-memory"),
            std::string::npos);
}

TEST(Compile, RefusesWhatCannotBe) {
  EXPECT_EQ(
      input_error([] { group("S5", 1, 2); }),
      "one layer with 2 factors per token cannot follow S5 by orthogonal matrices: in every "
      "faithful real representation, however split over heads, an element of the alphabet is a "
      "product of 4 reflections and no fewer (ranks of I - Q, from the characters); use "
      "--num-householder 4, more layers, or --generators that take fewer");
  EXPECT_NE(input_error([] { group("S5", 3, 2); }).find("a table of all words of up to 4"),
            std::string::npos);
  EXPECT_NE(input_error([] { group("S4", 2); }).find("no construction is known here"),
            std::string::npos);
  EXPECT_NE(input_error([] { group("S3", 0, 0, {"(1 4)"}); }).find("(1 4)"), std::string::npos);
}

}  // namespace
}  // namespace dp::theory
