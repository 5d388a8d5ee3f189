// Charts of an analysis, as Vega-Lite. Text from outside gets into them as data and titles, never into
// expressions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "analysis/verdict.h"
#include "report/analysis_page.h"
#include "report/chart.h"

namespace dp::report {
namespace {

using analysis::Analysis;
using analysis::Head;
using nlohmann::ordered_json;

constexpr int kSquare = 240;  // pixels: both axes of a plane must have the same scale

std::string text_of(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

ordered_json title(const std::string& text, const std::string& subtitle) {
  return {{"text", text}, {"subtitle", subtitle}, {"anchor", "start"}, {"frame", "group"}};
}

// `name` may be null: none.
ordered_json legend(const ordered_json& name) {
  return {{"title", name}, {"orient", "bottom"}, {"direction", "horizontal"}, {"columns", 3}};
}

ordered_json tooltip(std::initializer_list<std::pair<const char*, const char*>> fields) {
  auto list = ordered_json::array();
  for (const auto& [field, name] : fields)
    list.push_back({{"field", field}, {"type", "nominal"}, {"title", name}});
  return list;
}

std::string factor_name(size_t j) { return "factor " + std::to_string(j + 1); }

size_t shown(const Analysis& analysis) { return std::min(analysis.elements.size(), kMostElements); }

// A plane from -limit to limit in both directions.
ordered_json plane_axis(const char* field, const std::string& name, double limit) {
  return {{"field", field},
          {"type", "quantitative"},
          {"axis", {{"title", name}, {"tickCount", 5}}},
          {"scale", {{"domain", {-limit, limit}}, {"nice", false}}}};
}

}  // namespace

std::string choice_of(const Head& head) {
  return std::to_string(head.layer) + "." + std::to_string(head.head);
}

ChartVariant heads_chart(const Analysis& analysis, bool answers) {
  auto rows = ordered_json::array();
  for (const analysis::Layer& layer : analysis.layers)
    for (const Head& head : layer.heads)
      for (const bool alone : {true, false}) {
        const analysis::Score& score = alone ? head.alone : head.cut;
        rows.push_back({{"head", name_of(head, analysis)},
                        {"which", alone ? "this head alone" : "without this head"},
                        {"share", rounded(answers ? score.answers : score.sequences)},
                        {"s", text_of("%.1f %%", 100 * score.sequences)},
                        {"a", text_of("%.1f %%", 100 * score.answers)}});
      }
  ordered_json spec = {
      {"description", "Accuracy with each head alone and with each head cut"},
      {"title", title(answers ? "Answers right" : "Sequences right",
                      "of test sequences of " + std::to_string(analysis.options.length))},
      {"width", "container"},
      {"height", 220},
      {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}}};
  const ordered_json y = {{"type", "quantitative"},
                          {"axis", {{"title", nullptr}, {"format", ".0%"}, {"tickCount", 5}}},
                          {"scale", {{"domain", {0, 1}}}}};
  ordered_json height = y, whole = y;
  height["field"] = "share";
  whole["field"] = "whole";
  const ordered_json bars = {
      {"data", {{"name", "heads"}}},
      {"mark", "bar"},
      {"encoding",
       {{"x",
         {{"field", "head"},
          {"type", "nominal"},
          {"sort", nullptr},
          {"axis", {{"title", nullptr}, {"labelAngle", -40}}}}},
        {"xOffset", {{"field", "which"}, {"type", "nominal"}, {"sort", nullptr}}},
        {"y", height},
        {"color",
         {{"field", "which"},
          {"type", "nominal"},
          {"sort", nullptr},
          {"scale",
           {{"domain", {"this head alone", "without this head"}},
            {"range", {"#4c78a8", "#f58518"}}}},
          {"legend", legend(nullptr)}}},
        {"tooltip", tooltip({{"head", "head"},
                             {"which", "which"},
                             {"s", "sequences right"},
                             {"a", "answers right"}})}}}};
  const ordered_json rule = {{"data", {{"name", "whole"}}},
                             {"mark", {{"type", "rule"}, {"strokeDash", {5, 4}}, {"opacity", 0.7}}},
                             {"encoding", {{"y", whole}}}};
  spec["layer"] = ordered_json::array({bars, rule});
  return {
      {},
      spec,
      {{"heads", rows},
       {"whole", ordered_json::array({{{"whole", rounded(answers ? analysis.whole.answers
                                                                 : analysis.whole.sequences)}}})}}};
}

ChartVariant beta_chart(const Analysis& analysis, size_t layer) {
  const std::vector<Head>& heads = analysis.layers[layer].heads;
  const bool exact = analysis.layers[layer].exact;
  auto rows = ordered_json::array();
  for (const Head& head : heads)
    for (size_t j = 0; j < head.factor_keys.size(); ++j)
      for (size_t e = 0; e < shown(analysis); ++e)
        rows.push_back({{"element", analysis.elements[e].name},
                        {"order", analysis.elements[e].order},
                        {"row", "head " + std::to_string(head.head) + ", " + factor_name(j)},
                        {"beta", rounded(head.beta[e][j])},
                        {"text", text_of("%.3f", head.beta[e][j]) +
                                     (exact ? "" : text_of(" ± %.3f", head.beta_std[e][j]))}});
  const size_t lines = heads.size() * static_cast<size_t>(analysis.factors);
  std::string name = "Beta of every element";
  if (analysis.layers.size() > 1) name += ", layer " + std::to_string(layer);
  const ordered_json spec = {
      {"description", "Heat map of beta: a column per element, a row per head and factor"},
      {"title", title(name, "elements by order; a beta of 2 is a reflection")},
      {"width", "container"},
      {"height", std::max<size_t>(60, lines * (lines > 16 ? 14 : 20))},
      {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
      {"data", {{"name", "beta"}}},
      {"mark", "rect"},
      {"encoding",
       {{"x",
         {{"field", "element"},
          {"type", "nominal"},
          {"sort", nullptr},
          {"axis", {{"title", nullptr}, {"labelAngle", -60}, {"labelOverlap", true}}}}},
        {"y",
         {{"field", "row"},
          {"type", "nominal"},
          {"sort", nullptr},
          {"axis", {{"title", nullptr}}}}},
        {"color",
         {{"field", "beta"},
          {"type", "quantitative"},
          {"scale", {{"domain", {0, 2}}, {"scheme", "viridis"}}},
          {"legend", {{"title", "beta"}, {"orient", "bottom"}, {"direction", "horizontal"}}}}},
        {"tooltip",
         tooltip(
             {{"element", "element"}, {"order", "order"}, {"row", "where"}, {"text", "beta"}})}}}};
  return {{}, spec, {{"beta", rows}}};
}

ChartVariant key_chart(const Analysis& analysis, const Head& head, size_t component) {
  auto rows = ordered_json::array();
  double limit = 0.1;
  for (size_t j = 0; j < head.coordinates.size(); ++j)
    for (size_t e = 0; e < shown(analysis); ++e) {
      const auto& place = head.coordinates[j][e];
      rows.push_back({{"x", rounded(place[0])},
                      {"y", rounded(place[component])},
                      {"factor", factor_name(j)},
                      {"element", analysis.elements[e].name},
                      {"order", analysis.elements[e].order}});
      for (const double value : place) limit = std::max(limit, 1.05 * std::abs(value));
    }
  const std::string other = component == 1 ? "second" : "third";
  ordered_json y = plane_axis("y", other + " component", rounded(limit));
  const ordered_json spec = {
      {"description", "Keys of all elements in the plane of two principal components"},
      {"title",
       title("Keys of " + name_of(head, analysis), "first and " + other + " principal component")},
      {"width", kSquare},
      {"height", kSquare},
      {"data", {{"name", "keys"}}},
      {"mark", {{"type", "point"}, {"filled", true}, {"size", 45}, {"opacity", 0.75}}},
      {"encoding",
       {{"x", plane_axis("x", "first component", rounded(limit))},
        {"y", y},
        {"color",
         {{"field", "factor"},
          {"type", "nominal"},
          {"sort", nullptr},
          {"legend", legend(nullptr)}}},
        {"shape", {{"field", "factor"}, {"type", "nominal"}, {"sort", nullptr}}},
        {"tooltip", tooltip({{"element", "element"}, {"order", "order"}, {"factor", "factor"}})}}}};
  return {{choice_of(head)}, spec, {{"keys", rows}}};
}

ChartVariant variance_chart(const Analysis& analysis, const Head& head) {
  auto rows = ordered_json::array();
  const auto add = [&](const std::string& series, const std::vector<double>& cumulative) {
    for (size_t i = 0; i < std::min<size_t>(8, cumulative.size()); ++i)
      rows.push_back({{"n", i + 1},
                      {"share", rounded(cumulative[i])},
                      {"text", text_of("%.1f %%", 100 * cumulative[i])},
                      {"series", series}});
  };
  add("all factors", head.keys.centred);
  add("all, not centred", head.keys.uncentred);
  for (size_t j = 0; j < head.factor_keys.size() && head.factor_keys.size() > 1; ++j)
    add(factor_name(j), head.factor_keys[j].centred);
  const ordered_json y = {{"field", "share"},
                          {"type", "quantitative"},
                          {"axis", {{"title", nullptr}, {"format", ".0%"}, {"tickCount", 5}}},
                          {"scale", {{"domain", {0, 1}}}}};
  const ordered_json lines = {
      {"data", {{"name", "variance"}}},
      {"mark", {{"type", "line"}, {"point", true}}},
      {"encoding",
       {{"x",
         {{"field", "n"},
          {"type", "ordinal"},
          {"axis", {{"title", "principal components"}, {"labelAngle", 0}}}}},
        {"y", y},
        {"color",
         {{"field", "series"},
          {"type", "nominal"},
          {"sort", nullptr},
          {"legend", legend(nullptr)}}},
        {"tooltip", tooltip({{"series", "keys"}, {"n", "components"}, {"text", "variance"}})}}}};
  const ordered_json rule = {{"data", {{"name", "rules"}}},
                             {"mark", {{"type", "rule"}, {"strokeDash", {5, 4}}, {"opacity", 0.7}}},
                             {"encoding", {{"y", y}}}};
  const ordered_json spec = {
      {"description", "Share of the variance of keys that the first principal components hold"},
      {"title", title("Dimensions of the keys of " + name_of(head, analysis),
                      "variance held by the first principal components")},
      {"width", "container"},
      {"height", kSquare},
      {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
      {"layer", ordered_json::array({lines, rule})}};
  return {
      {choice_of(head)},
      spec,
      {{"variance", rows}, {"rules", ordered_json::array({{{"share", analysis::kMostVariance}}})}}};
}

ChartVariant eigenvalue_chart(const Analysis& analysis, const Head& head) {
  auto rows = ordered_json::array(), circle = ordered_json::array();
  for (size_t e = 0; e < shown(analysis); ++e)
    for (const std::complex<double>& value : head.eigenvalues[e])
      rows.push_back({{"re", rounded(value.real())},
                      {"im", rounded(value.imag())},
                      {"element", analysis.elements[e].name},
                      {"order", analysis.elements[e].order},
                      {"size", text_of("%.3f", std::abs(value))},
                      {"angle", text_of("%.1f°", std::arg(value) * 180 / M_PI)}});
  constexpr int kCorners = 72;
  for (int i = 0; i <= kCorners; ++i)
    circle.push_back({{"i", i},
                      {"re", rounded(std::cos(2 * M_PI * i / kCorners))},
                      {"im", rounded(std::sin(2 * M_PI * i / kCorners))}});
  const ordered_json x = plane_axis("re", "real part", 1.1),
                     y = plane_axis("im", "imaginary part", 1.1);
  const ordered_json unit = {
      {"data", {{"name", "circle"}}},
      {"mark", {{"type", "line"}, {"color", "#8a8f98"}, {"strokeWidth", 1}, {"tooltip", nullptr}}},
      {"encoding", {{"x", x}, {"y", y}, {"order", {{"field", "i"}, {"type", "quantitative"}}}}}};
  const ordered_json points = {
      {"data", {{"name", "eigenvalues"}}},
      {"mark", {{"type", "point"}, {"filled", true}, {"size", 40}, {"opacity", 0.7}}},
      {"encoding",
       {{"x", x},
        {"y", y},
        {"color", {{"field", "order"}, {"type", "nominal"}, {"legend", legend("order")}}},
        {"tooltip", tooltip({{"element", "element"},
                             {"order", "order"},
                             {"size", "size"},
                             {"angle", "angle"}})}}}};
  const ordered_json spec = {
      {"description", "Eigenvalues of every element's transition matrix in the complex plane"},
      {"title", title("Eigenvalues of " + name_of(head, analysis), "of each element's transition")},
      {"width", kSquare},
      {"height", kSquare},
      {"layer", ordered_json::array({unit, points})}};
  return {{choice_of(head)}, spec, {{"eigenvalues", rows}, {"circle", circle}}};
}

}  // namespace dp::report
