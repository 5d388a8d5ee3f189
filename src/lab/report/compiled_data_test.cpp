#include "report/compiled_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "algebra/regular_expression.h"
#include "base/test_folder.h"
#include "report/applied_maps.h"
#include "report/walk.h"
#include "theory/compile.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;

CompiledModel saved(const theory::Compiled& compiled, const theory::Weights& weights) {
  const TestFolder folder;
  theory::save_weights(weights, folder / "model");
  theory::save_problem(compiled.problem, compiled.construction.theorem, "./dp compile",
                       folder / "model");
  return load_compiled(folder / "model");
}
CompiledModel saved(const theory::Compiled& compiled) {
  return saved(compiled, compiled.weights());
}

CompiledModel group_model(const std::string& name, theory::CompileOptions options = {},
                          const std::vector<std::string>& alphabet = {}) {
  return saved(theory::compile_group(name, alphabet, options));
}

CompiledModel language_model(const std::string& expression) {
  return saved(theory::compile_automaton(parse_regular_expression(expression, ""), expression, {}));
}

AppliedMaps compute_maps(const CompiledModel& compiled) {
  return applied_maps(compiled.model, compiled.problem, FiniteGroup::parse(compiled.problem.group),
                      example_word(compiled.problem));
}

double trace(const theory::Matrix& m) {
  double sum = 0;
  for (size_t i = 0; i < m.rows(); ++i) sum += m(i, i);
  return sum;
}

TEST(AppliedMaps, OfA5AreTheRotationsOfAnIcosahedron) {
  const AppliedMaps maps = compute_maps(group_model("A5"));
  EXPECT_EQ(maps.dimension, 3);
  EXPECT_EQ(maps.copies, 21);
  EXPECT_EQ(maps.heads, 3);
  EXPECT_EQ(maps.heads_differ, 0);
  EXPECT_FALSE(maps.along_word);
  ASSERT_EQ(maps.maps.size(), 60u);
  std::map<long, int64_t> angles;
  for (const AppliedMap& map : maps.maps) {
    const double cosine = std::clamp((trace(map.matrix) - 1) / 2, -1.0, 1.0);
    ++angles[std::lround(std::acos(cosine) * 180 / M_PI)];
    for (const double beta : map.betas) EXPECT_EQ(beta, map.order > 1 ? 2 : 0) << map.name;
  }
  EXPECT_EQ(angles, (std::map<long, int64_t>{{0, 1}, {72, 12}, {120, 20}, {144, 12}, {180, 15}}));
  const ProductCheck check = check_products(maps, FiniteGroup::parse("A5"));
  EXPECT_EQ(check.products, 3600);
  EXPECT_LT(check.largest, 1e-5);
}

TEST(AppliedMaps, ComeFromTheWeights) {
  CompiledModel compiled = group_model("A5");
  for (const NamedParameter& named : compiled.model.parameters())
    if (named.name == "model.layers.0.attn.b_proj.weight") named.parameter->value.zero_();
  const AppliedMaps maps = compute_maps(compiled);
  EXPECT_EQ(maps.maps[1].betas, std::vector<double>(2, 1.0));
  EXPECT_GT(check_products(maps, FiniteGroup::parse("A5")).largest, 0.1);
}

TEST(AppliedMaps, ArePermutationMatricesOfPermutationsUpToSign) {
  const FiniteGroup group = FiniteGroup::parse("S5");
  const AppliedMaps maps = compute_maps(group_model("S5"));
  EXPECT_EQ(maps.dimension, 5);
  for (const AppliedMap& map : maps.maps)
    for (size_t i = 0; i < 5; ++i) {
      const size_t image = group.permutation(map.element)(static_cast<int64_t>(i));
      EXPECT_NEAR(std::abs(map.matrix(image, i)), 1, 1e-5) << map.name;
    }
  EXPECT_TRUE(maps.up_to_sign);
  EXPECT_LT(check_products(maps, group).largest, 1e-5);
  EXPECT_FALSE(compute_maps(group_model("S4")).up_to_sign);  // rotations of the cube
}

TEST(AppliedMaps, KnowRowsThatOnlyBosTouches) {
  EXPECT_EQ(compute_maps(group_model("S5", {.num_householder = 4}, {"(1 2)"})).dimension, 5);
}

TEST(AppliedMaps, OfDeeperModelsFollowTheWord) {
  const CompiledModel compiled = group_model("Z5", {.layers = 2});
  const AppliedMaps maps = compute_maps(compiled);
  EXPECT_TRUE(maps.along_word);
  EXPECT_EQ(maps.layer, 1);
  EXPECT_EQ(maps.maps.size(), example_word(compiled.problem).size());
  ASSERT_EQ(maps.dimension, 2);
  for (const AppliedMap& map : maps.maps)  // reflections all, though Z5 has none
    EXPECT_NEAR(map.matrix(0, 0) * map.matrix(1, 1) - map.matrix(0, 1) * map.matrix(1, 0), -1, 1e-5)
        << map.name;
  EXPECT_EQ(compute_maps(group_model("S3", {.layers = 3})).dimension, 3);
}

TEST(Walk, TakesEveryEdgeAndLeavesTrapsForLast) {
  // Edges but for those that lead into one trap from another side.
  for (const auto& [expression, edges] : std::map<std::string, size_t>{
           {"[abc]*abc[abc]*", 9}, {"(ab)*", 4}, {"(a|bb)*", 5}, {"a", 3}}) {
    const CompiledModel compiled = language_model(expression);
    const Walk walk = walk_word(*theory::make_answerer(compiled.runtime), compiled.problem,
                                example_word(compiled.problem));
    EXPECT_EQ(walk.states, walk.answers) << expression;
    ASSERT_EQ(walk.states.size(), walk.word.size() + 1);
    std::map<std::pair<int32_t, int32_t>, int> taken;
    for (size_t t = 0; t < walk.word.size(); ++t) ++taken[{walk.states[t], walk.states[t + 1]}];
    EXPECT_EQ(taken.size(), edges) << expression;
  }
}

TEST(CompiledData, OfALanguageHasItsAutomaton) {
  const ordered_json data = compiled_data(language_model("(ab)*"));
  EXPECT_EQ(data["page"], "compiled");
  EXPECT_EQ(data["kind"], "language");
  EXPECT_EQ(data["automaton"]["alphabet"], ordered_json({"a", "b"}));
  EXPECT_EQ(data["automaton"]["accepting"].size(), data["automaton"]["states"].size());
  EXPECT_EQ(data["automaton"]["moves"].size(), 2u);
  EXPECT_EQ(data["walk"]["answers"].size(), data["walk"]["word"].size() + 1);
  EXPECT_TRUE(data["check"]["wrong_at"].is_null());
  EXPECT_FALSE(data.contains("maps"));
  EXPECT_EQ(data["command"], "./dp compile");
}

TEST(CompiledData, OfAGroupHasPermutationsAndMaps) {
  const CompiledModel compiled = group_model("D5", {}, {"r1", "s0"});
  const ordered_json data = compiled_data(compiled);
  EXPECT_EQ(data["automaton"]["permutations"].size(), 10u);
  EXPECT_FALSE(data["automaton"].contains("moves"));
  // A word's states by products of permutations, as the page computes them.
  std::vector<std::vector<int>> permutations = data["automaton"]["permutations"];
  std::vector<int> product = permutations[data["automaton"]["start"].get<size_t>()];
  for (const auto& symbol : data["walk"]["word"]) {
    const auto element = data["automaton"]["elements"][symbol.get<size_t>()].get<size_t>();
    for (int& point : product) point = permutations[element][static_cast<size_t>(point)];
  }
  EXPECT_EQ(permutations[data["walk"]["answers"].back().get<size_t>()], product);
  ASSERT_EQ(data["maps"]["maps"].size(), 2u);
  EXPECT_EQ(data["maps"]["maps"][0]["name"], "r1");
  EXPECT_NEAR(data["maps"]["maps"][0]["angles"][0].get<double>(), 72, 1e-3);
}

TEST(CompiledData, SaysWhereTheModelIsWrong) {
  const theory::Compiled compiled = theory::compile_group("Z5", {}, {});
  theory::Weights weights = compiled.weights();
  std::ranges::fill(weights.arrays.at("model.layers.0.attn.b_proj.weight").values, 0.0f);
  EXPECT_TRUE(compiled_data(saved(compiled, weights))["check"]["wrong_at"].is_number());
}

}  // namespace
}  // namespace dp::report
