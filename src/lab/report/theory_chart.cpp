// Charts of spectra and stability, as Vega-Lite.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numbers>

#include "report/chart.h"
#include "report/theory_page.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;
using theory::ComplexRegion;
using theory::NormSeries;

constexpr double kDegrees = 180 / std::numbers::pi;
constexpr int kNormHeight = 260;  // pixels
constexpr const char* kBoundaryColour = "#e45756";
constexpr const char* kNormColours[] = {"#e45756", "#f58518", "#54a24b", "#4c78a8",
                                        "#72b7b2", "#b279a2", "#9d755d"};

double four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::atof(text);
}

std::string shown_as(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// An axis of a region, which goes from 0 to `end`; what is below `begin` is empty and not shown.
struct RegionAxis {
  const char* title;
  double unit, begin, end;  // values are multiplied by the unit
};

ordered_json region_axis(const char* field, const RegionAxis& axis) {
  return {{"field", field},
          {"type", "quantitative"},
          {"axis", {{"title", axis.title}, {"tickCount", 5}, {"grid", false}}},
          {"scale", {{"domain", {axis.begin, axis.end}}, {"nice", false}}}};
}

ordered_json region_rule(const char* channel) {
  return {{"data", {{"values", ordered_json::array({ordered_json::object()})}}},
          {"mark", {{"type", "rule"}, {"strokeDash", {5, 4}}, {"opacity", 0.5}}},
          {"encoding", {{channel, {{"datum", 1}}}}}};
}

ordered_json region_cells(const ComplexRegion& region, const RegionAxis& x, const RegionAxis& y) {
  const double wide = x.end / static_cast<double>(region.x.size());
  const double high = y.end / static_cast<double>(region.y.size());
  constexpr double kOverlap = 0.55;  // else seams show between the cells
  auto rows = ordered_json::array();
  for (size_t i = 0; i < region.y.size(); ++i)
    for (size_t j = 0; j < region.x.size(); ++j) {
      if (!(region.argument[i][j] > 0)) continue;
      const double at_x = x.unit * region.x[j], at_y = y.unit * region.y[i];
      rows.push_back({{"x", four_digits(at_x - wide / 2)},
                      {"x2", four_digits(at_x + wide * kOverlap)},
                      {"y", four_digits(at_y - high / 2)},
                      {"y2", four_digits(at_y + high * kOverlap)},
                      {"a", four_digits(at_x)},
                      {"b", four_digits(at_y)},
                      {"turn", four_digits(kDegrees * region.argument[i][j])}});
    }
  return rows;
}

// Cells, the closed form over them and, for each axis that is a beta, a rule at 1.
ChartVariant region_variant(const ComplexRegion& region, const RegionAxis& x, const RegionAxis& y,
                            const std::string& title, const std::string& subtitle, bool y_is_beta) {
  auto lines = ordered_json::array();
  for (size_t line = 0; line < region.boundary.size(); ++line)
    for (const ComplexRegion::Place& place : region.boundary[line])
      lines.push_back({{"x", four_digits(x.unit * place.x)},
                       {"y", four_digits(y.unit * place.y)},
                       {"line", line}});
  const ordered_json colour = {{"field", "turn"},
                               {"type", "quantitative"},
                               {"scale", {{"domain", {0, 180}}, {"scheme", "viridis"}}},
                               {"legend",
                                {{"title", "turns by, in degrees"},
                                 {"orient", "bottom"},
                                 {"values", {0, 45, 90, 135, 180}}}}};
  const ordered_json tooltip = ordered_json::array(
      {{{"field", "a"}, {"type", "nominal"}, {"title", x.title}},
       {{"field", "b"}, {"type", "nominal"}, {"title", y.title}},
       {{"field", "turn"}, {"type", "nominal"}, {"title", "turns by, in degrees"}}});
  auto layers = ordered_json::array();
  layers.push_back({{"data", {{"name", "cells"}}},
                    {"mark", {{"type", "rect"}, {"clip", true}}},
                    {"encoding",
                     {{"x", region_axis("x", x)},
                      {"x2", {{"field", "x2"}}},
                      {"y", region_axis("y", y)},
                      {"y2", {{"field", "y2"}}},
                      {"color", colour},
                      {"tooltip", tooltip}}}});
  layers.push_back(region_rule("x"));
  if (y_is_beta) layers.push_back(region_rule("y"));
  layers.push_back(
      {{"data", {{"name", "boundary"}}},
       {"mark",
        {{"type", "line"}, {"color", kBoundaryColour}, {"strokeWidth", 2.5}, {"clip", true}}},
       {"encoding",
        {{"x", region_axis("x", x)},
         {"y", region_axis("y", y)},
         {"detail", {{"field", "line"}, {"type", "nominal"}}}}}});
  const ordered_json spec = {
      {"description", "Where two factors have complex eigenvalues, with the closed form over it"},
      {"title", {{"text", title}, {"subtitle", subtitle}, {"anchor", "start"}, {"frame", "group"}}},
      {"width", "container"},
      {"height", 290},
      {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
      {"layer", layers}};
  return {{}, spec, {{"cells", region_cells(region, x, y)}, {"boundary", lines}}};
}

}  // namespace

ChartVariant region_chart(const ComplexRegion& region) {
  return region_variant(region, {"β₁", 1, 0.8, 2}, {"β₂", 1, 0.8, 2},
                        shown_as("Directions at θ = %.4g°", kDegrees * region.theta),
                        "complex eigenvalues over both betas", true);
}

ChartVariant equal_beta_chart(const ComplexRegion& region) {
  return region_variant(region, {"β", 1, 0.8, 2}, {"θ, in degrees", kDegrees, 0, 90}, "Equal betas",
                        "complex above β = 2 / (1 + sin θ)", false);
}

ChartVariant norm_chart(const std::vector<NormSeries>& norms, bool states) {
  LineChart chart;
  chart.title = states ? "Driven state" : "Product of all transitions";
  chart.y_title = states ? "length, with random inputs" : "spectral norm of Aₜ ⋯ A₁";
  chart.description = chart.title + ", " + chart.y_title + ", against the number of steps";
  chart.x_title = "steps";
  chart.log_y = true;
  for (const NormSeries& one : norms) {
    Series& series = chart.series.emplace_back();
    series.label = one.label;
    series.colour = kNormColours[(chart.series.size() - 1) % std::size(kNormColours)];
    for (const theory::Norms& run : one.runs) {
      const std::vector<double>& values = states ? run.state : run.product;
      std::vector<Point>& line = series.runs.emplace_back();
      for (size_t t = 0; t < values.size(); ++t)  // a length of 0 has no logarithm
        if (values[t] > 0) line.push_back({static_cast<double>(t), values[t]});
    }
  }
  ordered_json spec = vega_lite(chart);
  spec["height"] = kNormHeight;
  for (ordered_json& layer : spec["layer"]) {
    if (!layer["encoding"].contains("y")) continue;
    ordered_json& axis = layer["encoding"]["y"]["axis"];
    axis["values"] = ordered_json::array();
    for (int power = -20; power <= 20; power += 2) axis["values"].push_back(std::pow(10, power));
    axis["tickCount"] = axis["values"].size();
  }
  return {{}, spec, chart_data(chart)};
}

ChartVariant radius_chart(const std::vector<std::pair<double, double>>& radii) {
  LineChart chart;
  chart.title = "Two RWKV-7 transitions";
  chart.y_title = "spectral radius of their product";
  chart.description = chart.y_title + " against the angle of their keys";
  chart.x_title = "θ, in degrees";
  Series& series = chart.series.emplace_back();
  series.label = "k = (sin θ, cos θ) and (cos θ, sin θ)";
  series.colour = kNormColours[0];
  std::vector<Point>& line = series.runs.emplace_back();
  for (const auto& [degrees, radius] : radii) line.push_back({degrees, radius});
  ordered_json spec = vega_lite(chart);
  spec["height"] = kNormHeight;
  return {{}, spec, chart_data(chart)};
}

}  // namespace dp::report
