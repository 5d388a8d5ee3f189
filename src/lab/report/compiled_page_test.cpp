#include "report/compiled_page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "algebra/regular_expression.h"
#include "base/error.h"
#include "report/automaton_drawing.h"
#include "theory/compile.h"

namespace dp::report {
namespace {

CompiledModel compiled_of(theory::Compiled compiled) {
  LanguageModel model = compiled.model();
  return {std::move(compiled.problem), compiled.construction.theorem, "some dir", std::move(model)};
}

CompiledModel group_model(const std::string& name, theory::CompileOptions options = {},
                          const std::vector<std::string>& alphabet = {}) {
  return compiled_of(theory::compile_group(name, alphabet, options));
}

CompiledModel language_model(const std::string& expression, const std::string& alphabet = "") {
  return compiled_of(
      theory::compile_automaton(parse_regular_expression(expression, alphabet), expression, {}));
}

AppliedMaps maps_of(const CompiledModel& compiled) {
  return applied_maps(compiled.model, compiled.problem, FiniteGroup::parse(compiled.problem.group),
                      example_word(compiled.problem));
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

TEST(AppliedMaps, OfA5AreTheRotationsOfAnIcosahedron) {
  const AppliedMaps maps = maps_of(group_model("A5"));
  EXPECT_EQ(maps.dimension, 3);
  EXPECT_EQ(maps.copies, 21);
  EXPECT_EQ(maps.heads, 3);
  EXPECT_EQ(maps.heads_differ, 0);
  EXPECT_FALSE(maps.along_word);
  ASSERT_EQ(maps.maps.size(), 60u);
  EXPECT_EQ(geometry_of(maps), Geometry::kRotations);
  std::map<int64_t, int64_t> angles;
  for (const AppliedMap& map : maps.maps) {
    const Turn turn = turn_of(map.matrix);
    const double whole = std::round(turn.degrees);
    EXPECT_NEAR(turn.degrees, whole, 1e-3) << map.name;
    ++angles[static_cast<int64_t>(whole)];
    EXPECT_EQ(std::fmod(whole * static_cast<double>(map.order), 360), 0) << map.name;
    // The axis stays where it is, and the rotation goes around it to the left.
    const std::vector<double> moved = map.matrix * turn.axis;
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(moved[i], turn.axis[i], 1e-5) << map.name;
    EXPECT_NEAR(theory::length(turn.axis), map.order > 1 ? 1 : 0, 1e-9);
    for (const double beta : map.betas) EXPECT_EQ(beta, map.order > 1 ? 2 : 0) << map.name;
  }
  EXPECT_EQ(angles,
            (std::map<int64_t, int64_t>{{0, 1}, {72, 12}, {120, 20}, {144, 12}, {180, 15}}));
  const ProductCheck check = check_products(maps, FiniteGroup::parse("A5"));
  EXPECT_EQ(check.products, 3600);
  EXPECT_LT(check.largest, 1e-5);
}

TEST(AppliedMaps, ComeFromTheWeights) {
  CompiledModel compiled = group_model("A5");
  for (const NamedParameter& named : compiled.model.parameters())
    if (named.name == "model.layers.0.attn.b_proj.weight") named.parameter->value.zero_();
  const AppliedMaps maps = maps_of(compiled);
  EXPECT_EQ(maps.maps[1].betas, std::vector<double>(2, 1.0));
  EXPECT_GT(check_products(maps, FiniteGroup::parse("A5")).largest, 0.1);
}

TEST(AppliedMaps, AreTranspositionsOfPermutations) {
  const FiniteGroup group = FiniteGroup::parse("S5");
  const AppliedMaps maps = maps_of(group_model("S5"));
  EXPECT_EQ(maps.dimension, 5);
  ASSERT_EQ(geometry_of(maps), Geometry::kTranspositions);
  for (const AppliedMap& map : maps.maps) {
    Permutation product(group.degree());
    for (size_t j = 0; j < map.keys.size(); ++j)
      if (map.betas[j] != 0)
        product =
            Permutation::parse(transposition_name(*transposition_of(map.keys[j])), 5) * product;
    EXPECT_EQ(product, group.permutation(map.element)) << describe(map, Geometry::kTranspositions);
  }
  EXPECT_EQ(describe(maps.maps[0], Geometry::kTranspositions), "nothing");
}

TEST(AppliedMaps, KnowRowsThatOnlyBosTouches) {
  const AppliedMaps maps = maps_of(group_model("S5", {.num_householder = 4}, {"(1 2)"}));
  EXPECT_EQ(maps.dimension, 5);
  EXPECT_EQ(describe(maps.maps.at(0), geometry_of(maps)), "(1 2)");
}

TEST(AppliedMaps, OfThePlane) {
  const AppliedMaps maps = maps_of(group_model("D5"));
  ASSERT_EQ(geometry_of(maps), Geometry::kPlane);
  int64_t mirrors = 0;
  for (const AppliedMap& map : maps.maps) {
    const PlaneMap plane = plane_map_of(map.matrix);
    mirrors += plane.mirror;
    EXPECT_EQ(plane.mirror, map.name.starts_with("s")) << map.name;
    const double step = plane.mirror ? 36 : 72;
    EXPECT_NEAR(std::remainder(plane.degrees, step), 0, 1e-3) << map.name;
    EXPECT_LT(plane.degrees, plane.mirror ? 179 : 359);
    if (plane.mirror) {  // what lies on it stays
      const double angle = plane.degrees * M_PI / 180;
      const std::vector<double> on = {std::cos(angle), std::sin(angle)}, moved = map.matrix * on;
      EXPECT_NEAR(moved[0], on[0], 1e-5) << map.name;
      EXPECT_NEAR(moved[1], on[1], 1e-5) << map.name;
    }
    if (map.name == "r1") {
      EXPECT_EQ(describe(map, Geometry::kPlane), "rotation by 72.00°");
    }
  }
  EXPECT_EQ(mirrors, 5);
}

TEST(AppliedMaps, OfDeeperModelsFollowTheWord) {
  const CompiledModel compiled = group_model("Z5", {.layers = 2});
  const AppliedMaps maps = maps_of(compiled);
  EXPECT_TRUE(maps.along_word);
  EXPECT_EQ(maps.layer, 1);
  EXPECT_EQ(maps.maps.size(), example_word(compiled.problem).size());
  ASSERT_EQ(geometry_of(maps), Geometry::kPlane);
  for (const AppliedMap& map : maps.maps)  // reflections all, though Z5 has none
    EXPECT_TRUE(plane_map_of(map.matrix).mirror) << map.name;
  const AppliedMaps delayed = maps_of(group_model("S3", {.layers = 3}));
  EXPECT_EQ(geometry_of(delayed), Geometry::kTranspositions);
  EXPECT_EQ(delayed.dimension, 3);
}

TEST(Isometry, FindsAxesOfHalfTurnsAndSmallAngles) {
  theory::Matrix half = theory::identity(3);
  half(0, 0) = half(1, 1) = -1;
  EXPECT_NEAR(turn_of(half).degrees, 180, 1e-9);
  EXPECT_NEAR(std::abs(turn_of(half).axis[2]), 1, 1e-9);
  for (const double degrees : {0.5, 90.0, 179.5}) {  // about the first axis, to the right
    const double angle = -degrees * M_PI / 180;
    theory::Matrix m = theory::identity(3);
    m(1, 1) = m(2, 2) = std::cos(angle);
    m(2, 1) = std::sin(angle), m(1, 2) = -std::sin(angle);
    EXPECT_NEAR(turn_of(m).degrees, degrees, 1e-6);
    EXPECT_NEAR(turn_of(m).axis[0], -1, 1e-6);
  }
  EXPECT_EQ(turn_of(theory::identity(3)).degrees, 0);
  EXPECT_FALSE(transposition_of({0.6, -0.8}));
  EXPECT_FALSE(transposition_of({0.7071, 0.7071}));
  EXPECT_EQ(axis_text({-0.0001, -0.5, 1}), "(0.000, −0.500, 1.000)");
}

TEST(AutomatonDrawing, HasEachStateAndEachMergedEdgeOnce) {
  const Automaton automaton = parse_regular_expression("[abc]*abc[abc]*");
  const std::vector<Edge> edges = merged_edges(automaton);
  const std::string svg = draw(automaton);
  EXPECT_EQ(edges.size(), 9u);
  EXPECT_EQ(count(svg, "data-edge="), edges.size());
  EXPECT_EQ(count(svg, "class=\"label\""), edges.size());
  size_t moves = 0;
  for (const Edge& edge : edges) {
    moves += edge.symbols.size();
    EXPECT_EQ(count(svg, "data-edge=\"" + std::to_string(edge.from) + "-" +
                             std::to_string(edge.to) + "\""),
              1u);
  }
  EXPECT_EQ(moves, 12u);
  for (int32_t q = 0; q < automaton.num_states(); ++q)
    EXPECT_EQ(count(svg, "data-state=\"" + std::to_string(q) + "\""), 1u);
  EXPECT_EQ(count(svg, "class=\"ring\""), 1u);
  EXPECT_EQ(count(svg, "class=\"start\""), 1u);
  EXPECT_NE(svg.find(">a, b, c<"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(AutomatonDrawing, EscapesNamesAndShortensManySymbols) {
  Automaton a;
  a.alphabet = {"<a>", "b", "c", "d", "e", "f"};
  a.state_names = {"ünïcödé state", "&", "unreachable"};
  a.accepting = {false, true, true};
  a.moves = {{0, 0, 2}, {1, 0, 2}, {1, 0, 2}, {1, 0, 2}, {1, 0, 2}, {1, 0, 2}};
  const std::string svg = draw(a);
  EXPECT_EQ(svg.find("<a>"), std::string::npos);
  EXPECT_NE(svg.find(">ünïcödé…"), std::string::npos);
  EXPECT_EQ(svg.find("unreachable"), std::string::npos);
  const std::vector<Edge> edges = merged_edges(a);
  ASSERT_EQ(edges.size(), 3u);
  EXPECT_EQ(edge_label(a, edges[0]), "<a>");
  EXPECT_EQ(edge_label(a, edges[1]), "all but <a>");
  EXPECT_EQ(edge_label(a, edges[2]), "all");
}

TEST(Walk, TakesEveryEdgeAndLeavesTrapsForLast) {
  // Edges but for those that lead into one trap from another side.
  for (const auto& [expression, edges] : std::map<std::string, size_t>{
           {"[abc]*abc[abc]*", 9}, {"(ab)*", 4}, {"(a|bb)*", 5}, {"a", 3}}) {
    const CompiledModel compiled = language_model(expression);
    const Walk walk = walk_word(compiled.model, compiled.problem, example_word(compiled.problem));
    EXPECT_TRUE(walk.right()) << expression;
    ASSERT_EQ(walk.states.size(), walk.word.size() + 1);
    std::map<std::pair<int32_t, int32_t>, int> taken;
    for (size_t t = 0; t < walk.word.size(); ++t) ++taken[{walk.states[t], walk.states[t + 1]}];
    EXPECT_EQ(taken.size(), edges) << expression;
  }
}

TEST(Walk, ShowsWhereAModelIsWrong) {
  const CompiledModel compiled = language_model("(ab)*");
  Walk walk = walk_word(compiled.model, compiled.problem, {0, 1});
  EXPECT_EQ(walk_html(walk, compiled.problem).find("wrong"), std::string::npos);
  walk.answers[1] = -1;
  EXPECT_FALSE(walk.right());
  const std::string text = walk_html(walk, compiled.problem);
  EXPECT_EQ(count(text, " wrong\""), 1u);
  EXPECT_NE(text.find("the model says none, but it should be 1"), std::string::npos);
}

TEST(CompileCommand, SaysWhatWasCompiled) {
  EXPECT_EQ(compile_command(group_model("A5")),
            "./dp compile group A5 --layers 1 --num-householder 2 --out 'some dir'");
  EXPECT_EQ(compile_command(group_model("S3", {.layers = 4}, {"(1 2)", "(1 2 3)"})),
            "./dp compile group S3 --generators '(1 2),(1 2 3)' --layers 4 --num-householder 1 "
            "--out 'some dir'");
  EXPECT_NE(compile_command(language_model("(ab)*")).find("regex '(ab)*' --layers"),
            std::string::npos);
  EXPECT_NE(compile_command(language_model("a.", "abc")).find("regex a. --alphabet abc"),
            std::string::npos);
  CompiledModel other = language_model("(ab)*");
  other.problem.name = "automata/ab.json";
  EXPECT_NE(compile_command(other).find("dfa automata/ab.json"), std::string::npos);
  EXPECT_NE(compile_command(compiled_of(theory::compile_counting(5, {}))).find("compile count 5"),
            std::string::npos);
  EXPECT_NE(compile_command(compiled_of(theory::compile_recall({"x", "y"}, 2, {})))
                .find("compile recall 2 --alphabet xy"),
            std::string::npos);
}

TEST(CompiledCharts, ShowEveryRotation) {
  const AppliedMaps maps = maps_of(group_model("A5"));
  const auto front = sphere_chart(maps, true).data, back = sphere_chart(maps, false).data;
  // 12 axes with two rotations each, 20 with one, and both ends of 15 half turns.
  EXPECT_EQ(front["axes"].size() + back["axes"].size(), 74u);
  EXPECT_EQ(front["axes"].size(), 37u);
  std::set<int64_t> edges[2];  // of the icosahedron; those across the rim are on both sides
  for (const auto& row : front["solid"]) edges[0].insert(row["line"].get<int64_t>());
  for (const auto& row : back["solid"]) edges[1].insert(row["line"].get<int64_t>());
  EXPECT_LT(edges[0].size(), 30u);
  EXPECT_EQ(edges[0].size(), edges[1].size());
  edges[0].merge(edges[1]);
  EXPECT_EQ(edges[0].size(), 30u);
  int64_t elements = 0;
  const auto angles = angle_chart(maps).data["angles"];
  for (const auto& row : angles) elements += row["count"].get<int64_t>();
  EXPECT_EQ(elements, 60);
}

TEST(CompiledPage, HasWhatBelongsToItsKind) {
  const WebFiles web = web_files();
  const WebFiles files = {
      "{{title}}|{{body}}|{{data}}", "", "", "charts", "", "", "", web.compiled};
  const std::string group = make_compiled_page(group_model("A5"), files);
  EXPECT_NE(group.find("a finite group of orthogonal matrices"), std::string::npos);
  EXPECT_NE(group.find("59,922 parameters"), std::string::npos);
  EXPECT_EQ(group.find("{{"), std::string::npos);
  EXPECT_EQ(count(group, "data-chart="), 3u);
  EXPECT_EQ(count(group, "<tr><td"), 60u);
  EXPECT_EQ(count(group, "<svg"), 0u);
  EXPECT_NE(group.find("3,600 products"), std::string::npos);
  const std::string language = make_compiled_page(language_model("(ab)*"), files);
  EXPECT_EQ(count(language, "<svg"), 1u);
  EXPECT_EQ(count(language, "data-chart="), 0u);
  EXPECT_NE(language.find("Checked for this page: right"), std::string::npos);
  const std::string recall =
      make_compiled_page(compiled_of(theory::compile_recall({"a", "b"}, 5, {})), files);
  EXPECT_NE(recall.find("63 states, too many to draw"), std::string::npos);
  EXPECT_EQ(count(recall, "<svg"), 0u);
  EXPECT_THROW(make_compiled_page(group_model("Z2"), {"", "", "", ""}), InputError);
}

TEST(CompiledPage, SaysSoIfTheModelIsWrong) {
  CompiledModel compiled = group_model("Z3");
  for (const NamedParameter& named : compiled.model.parameters())
    if (named.name == "lm_head.weight") named.parameter->value.zero_();
  const std::string page = make_compiled_page(compiled, web_files());
  EXPECT_NE(page.find("It is wrong: an answer at symbol"), std::string::npos);
  EXPECT_NE(page.find(" wrong\" data-state="), std::string::npos);
}

}  // namespace
}  // namespace dp::report
