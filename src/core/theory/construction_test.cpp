// Every construction against the algebra: all short words, random words, and one long one.
#include "theory/construction.h"

#include <gtest/gtest.h>

#include "algebra/regular_expression.h"
#include "base/error.h"
#include "theory/compile.h"
#include "theory/languages.h"
#include "theory/rwkv7.h"
#include "theory/verify.h"

namespace dp::theory {
namespace {

// Words as `all`, then 20 of 200 symbols, then one of 5000.
void expect_exact(const Compiled& compiled, int64_t most_words = 3000) {
  SCOPED_TRACE(compiled.problem.name +
               ", n_h = " + std::to_string(compiled.construction.num_householder) + ", " +
               compiled.construction.theorem);
  VerifyOptions options;
  options.most_words = most_words;
  options.random_words = 20, options.random_length = 200, options.long_length = 5000;
  const VerifyResult result =
      verify(*make_answerer(compiled.weights().model()), compiled.problem, options);
  EXPECT_GT(result.words_length, 0);
  if (result.first_error)
    ADD_FAILURE() << "wrong at position " << result.first_error->position << ": answered "
                  << result.first_error->answered << ", expected " << result.first_error->expected;
  EXPECT_EQ(result.long_length, 5000);
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
    Construction c = group_in_one_layer(problem, s, permutation_matrices(s));
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

TEST(Products, Rwkv7FollowsEveryLanguageInOneLayer) {
  for (const Language& language : example_languages()) {
    SCOPED_TRACE(language.name);
    const Rwkv7Check check = check_rwkv7(language.automaton);
    EXPECT_GT(check.words, 0);
    EXPECT_EQ(check.wrong, 0);
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

TEST(Compile, RefusesWhatCannotBe) {
  const auto reason = [](const auto& compile) -> std::string {
    try {
      compile();
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_EQ(reason([] { group("S5", 1, 2); }),
            "one layer with 2 factors per token cannot follow S5: (1 2 3 4 5) as one of the "
            "permutation matrices is a "
            "product of 4 reflections and no fewer; use --num-householder 4, more layers, or "
            "--generators that take "
            "fewer");
  EXPECT_NE(reason([] { group("S5", 3, 2); }).find("a table of all words of up to 4"),
            std::string::npos);
  EXPECT_NE(reason([] { group("S4", 2); }).find("two layers are known"), std::string::npos);
  EXPECT_NE(reason([] { group("S3", 0, 0, {"(1 4)"}); }).find("(1 4)"), std::string::npos);
}

}  // namespace
}  // namespace dp::theory
