// A LineChart as Vega-Lite (version 6): https://vega.github.io/vega-lite/docs/. Text from outside gets
// into it as data, titles and domains, never into expressions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "report/chart.h"
#include "report/verdict.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;

constexpr double kThin = 1, kThick = 2.5;

// Of series i, in the rows of "hover". (GCC 12 warns of "c" + std::string, its bug 105651.)
std::string column(size_t i) {
  std::string name = "c";
  return name.append(std::to_string(i));
}

double largest_x(const LineChart& chart) {
  double largest = 1;
  for (const Series& series : chart.series)
    for (const std::vector<Point>& run : series.runs)
      for (const Point& point : run) largest = std::max(largest, point.x);
  return largest;
}

// Of positive values; a decade if there are none.
std::pair<double, double> range_y(const LineChart& chart) {
  double low = HUGE_VAL, high = 0;
  for (const Series& series : chart.series)
    for (const std::vector<Point>& run : series.runs)
      for (const Point& point : run)
        if (point.y > 0) low = std::min(low, point.y), high = std::max(high, point.y);
  return high > 0 ? std::pair(low, high) : std::pair(0.1, 1.0);
}

// x -> median or mean of the runs that have a point there, or had one before.
std::map<double, double> middle_line(const Series& series, bool hold_last, bool mean) {
  std::map<double, std::vector<double>> columns;
  for (const std::vector<Point>& run : series.runs)
    for (const Point& point : run) columns[point.x].push_back(point.y);
  if (hold_last)
    for (const std::vector<Point>& run : series.runs)
      if (!run.empty())
        for (auto later = columns.upper_bound(run.back().x); later != columns.end(); ++later)
          later->second.push_back(run.back().y);
  std::map<double, double> result;
  for (auto& [x, values] : columns)
    result[x] = mean ? std::accumulate(values.begin(), values.end(), 0.0) /
                           static_cast<double>(values.size())
                     : *median(std::move(values));
  return result;
}

ordered_json x_axis(const LineChart& chart) {
  const double largest = largest_x(chart);
  ordered_json axis = {
      {"title", chart.x_title}, {"grid", false}, {"labelFlush", false}, {"labelOverlap", true}};
  if (chart.count_x) axis["format"] = "~s";
  const double first = chart.log_x ? std::max(1.0, chart.first_x) : chart.first_x;
  if (chart.log_x) {
    for (double x = 1; x <= largest; x *= 2)
      if (x >= first) axis["values"].push_back(x);
  } else if (!chart.dashed.empty() && chart.dashed.front() > 0) {
    // In units of the training length, as long as these are few.
    const auto unit = static_cast<double>(chart.dashed.front());
    if (largest >= unit && largest / unit <= 8)
      for (double x = 0; x <= largest; x += unit) axis["values"].push_back(x);
  }
  ordered_json scale = {{"domain", {first, largest}}, {"nice", false}};
  scale["type"] = chart.log_x ? "log" : "linear";
  if (chart.log_x) scale["base"] = 2;
  return {{"field", "x"}, {"type", "quantitative"}, {"axis", axis}, {"scale", scale}};
}

ordered_json y_axis(const LineChart& chart) {
  ordered_json y = {{"field", "y"}, {"type", "quantitative"}};
  y["axis"] = {{"title", nullptr}, {"tickCount", 5}};
  y["scale"] = {{"type", chart.log_y ? "log" : "linear"}};
  if (chart.share_y || chart.unit_y) {
    y["axis"]["format"] = chart.share_y ? ".0%" : ".1f";
    y["scale"]["domain"] = {0, 1};
  }
  if (chart.range_y) {
    y["scale"]["domain"] = {rounded(chart.range_y->first), rounded(chart.range_y->second)};
    y["scale"]["nice"] = false;
  }
  if (chart.log_y) {
    // Whole powers of ten only: lines for all between them are too many.
    const auto [low, high] = range_y(chart);
    const double first = std::floor(std::log10(low));
    y["axis"]["format"] = "~g";
    for (double power = first; power <= std::log10(high); ++power)
      y["axis"]["values"].push_back(rounded(std::pow(10, power)));
    y["scale"]["domain"] = {rounded(std::pow(10, first)), rounded(high * 1.1)};
    y["scale"]["nice"] = false;
  }
  return y;
}

ordered_json colour_of_series(const LineChart& chart) {
  ordered_json domain = ordered_json::array(), range = ordered_json::array();
  size_t longest = 0;
  for (const Series& series : chart.series) {
    domain.push_back(series.label);
    range.push_back(series.colour);
    longest = std::max(longest, series.label.size());
  }
  ordered_json legend = {
      {"title", nullptr},        {"orient", "bottom"},
      {"direction", "vertical"}, {"columns", longest <= 8 ? 4 : longest <= 20 ? 2 : 1},
      {"labelLimit", 320},       {"symbolType", "stroke"},
      {"symbolStrokeWidth", 3}};
  if (!chart.legend) legend = nullptr;
  return {{"field", "series"},
          {"type", "nominal"},
          {"scale", {{"domain", domain}, {"range", range}}},
          {"legend", legend}};
}

ordered_json lines_layer(const LineChart& chart) {
  ordered_json mark = {{"type", "line"},
                       {"interpolate", chart.steps ? "step-after" : "linear"},
                       {"clip", chart.range_y.has_value()}};
  if (chart.points) mark["point"] = {{"size", 40}};
  return {
      {"data", {{"name", "lines"}}},
      {"mark", mark},
      {"encoding",
       {{"x", x_axis(chart)},
        {"y", y_axis(chart)},
        {"color", colour_of_series(chart)},
        {"detail", {{"field", "run"}}},
        {"strokeWidth",
         {{"condition", {{"test", "datum.main"}, {"value", kThick}}}, {"value", kThin}}},
        {"opacity", {{"condition", {{"test", "datum.main"}, {"value", 1}}}, {"value", 0.55}}}}}};
}

// A dashed line at each training length, behind the others, and along it what it is.
ordered_json rules_layers(bool label_on_top) {
  const ordered_json data = {{"name", "rules"}};
  const ordered_json encoding = {{"x", {{"field", "x"}, {"type", "quantitative"}}}};
  const ordered_json rule = {{"type", "rule"}, {"strokeDash", {5, 4}}, {"opacity", 0.7}};
  ordered_json label = {
      {"type", "text"}, {"text", "training length"},     {"angle", 270},   {"baseline", "bottom"},
      {"dy", -3},       {"y", {{"expr", "height / 2"}}}, {"fontSize", 10}, {"opacity", 0.7}};
  if (label_on_top) label["y"] = 2, label["align"] = "right";
  return ordered_json::array({{{"data", data}, {"mark", rule}, {"encoding", encoding}},
                              {{"data", data}, {"mark", label}, {"encoding", encoding}}});
}

ordered_json faint_layer() {
  return {{"data", {{"name", "faint"}}},
          {"mark", {{"type", "rule"}, {"opacity", 0.22}}},
          {"encoding", {{"x", {{"field", "x"}, {"type", "quantitative"}}}}}};
}

ordered_json marks_layer(const LineChart& chart) {
  return {{"data", {{"name", "marks"}}},
          {"mark",
           {{"type", "point"},
            {"filled", true},
            {"size", 70},
            {"opacity", 1},
            {"stroke", "white"},
            {"strokeWidth", 1}}},
          {"encoding",
           {{"x", {{"field", "x"}, {"type", "quantitative"}}},
            {"y", {{"field", "y"}, {"type", "quantitative"}}},
            {"color", colour_of_series(chart)}}}};
}

bool has_marks(const LineChart& chart) {
  return std::ranges::any_of(chart.series, [](const Series& it) { return !it.marks.empty(); });
}

// An upright line at the pointer with the value of every configuration there.
ordered_json hover_layer(const LineChart& chart) {
  ordered_json tooltip = {{{"field", "x"}, {"type", "quantitative"}, {"title", chart.x_title}}};
  if (chart.count_x) tooltip[0]["format"] = ".3s";
  for (size_t i = 0; i < chart.series.size(); ++i)
    tooltip.push_back(
        {{"field", column(i)}, {"type", "nominal"}, {"title", chart.series[i].label}});
  return {{"data", {{"name", "hover"}}},
          {"mark", {{"type", "rule"}}},
          {"encoding",
           {{"x", {{"field", "x"}, {"type", "quantitative"}}},
            {"opacity",
             {{"condition", {{"param", "hover"}, {"empty", false}, {"value", 0.4}}}, {"value", 0}}},
            {"tooltip", tooltip}}},
          {"params",
           {{{"name", "hover"},
             {"select",
              {{"type", "point"},
               {"fields", {"x"}},
               {"nearest", true},
               {"on", "pointerover"},
               {"clear", "pointerout"}}}}}}};
}

ordered_json marks_of(const LineChart& chart) {
  auto rows = ordered_json::array();
  for (const Series& series : chart.series)
    for (const auto& [x, y] : series.marks)
      if (!chart.range_y || (y >= chart.range_y->first && y <= chart.range_y->second))
        rows.push_back({{"x", x}, {"y", rounded(y)}, {"series", series.label}});
  return rows;
}

std::string value_text(const LineChart& chart, double y) {
  char text[32];
  if (chart.share_y)
    std::snprintf(text, sizeof text, "%.1f %%", 100 * y);
  else if (chart.unit_y)
    std::snprintf(text, sizeof text, "%.3f", y);
  else
    std::snprintf(text, sizeof text, "%.4g", y);
  return text;
}

}  // namespace

double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return std::atof(text);
}

ordered_json vega_lite(const LineChart& chart) {
  ordered_json layers = ordered_json::array();
  if (!chart.faint.empty()) layers.push_back(faint_layer());
  if (!chart.dashed.empty())
    for (const ordered_json& layer : rules_layers(chart.label_on_top)) layers.push_back(layer);
  layers.push_back(lines_layer(chart));
  if (has_marks(chart)) layers.push_back(marks_layer(chart));
  layers.push_back(hover_layer(chart));
  return {{"description", chart.description},
          {"title",
           {{"text", chart.title},
            {"subtitle", chart.y_title},
            {"anchor", "start"},
            {"frame", "group"}}},
          {"width", "container"},
          {"height", 220},
          {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
          {"layer", layers}};
}

ordered_json chart_data(const LineChart& chart) {
  auto thin = ordered_json::array(), thick = ordered_json::array(), rules = ordered_json::array();
  std::map<double, ordered_json> hover;
  int64_t number = 0;  // of a line
  const auto add = [&](ordered_json& rows, const Series& series, const auto& points, bool main) {
    for (const auto& [x, y] : points)
      rows.push_back(
          {{"x", x}, {"y", rounded(y)}, {"series", series.label}, {"run", number}, {"main", main}});
    ++number;
  };
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    if (series.runs.size() > 1)
      for (const std::vector<Point>& run : series.runs) add(thin, series, run, false);
    const std::map<double, double> middle = middle_line(series, chart.hold_last, chart.mean);
    add(thick, series, middle, true);
    for (const auto& [x, y] : middle) hover[x][column(i)] = value_text(chart, y);
  }
  for (const ordered_json& row : thick) thin.push_back(row);  // drawn last, on top
  for (const int64_t x : chart.dashed) rules.push_back({{"x", x}});
  auto hover_rows = ordered_json::array();
  for (auto& [x, row] : hover) {
    row["x"] = x;
    for (size_t i = 0; i < chart.series.size(); ++i) row.emplace(column(i), "–");
    hover_rows.push_back(row);
  }
  ordered_json data = {{"lines", thin}, {"rules", rules}, {"hover", hover_rows}};
  if (has_marks(chart)) data["marks"] = marks_of(chart);
  for (const int64_t x : chart.faint) data["faint"].push_back({{"x", x}});
  return data;
}

}  // namespace dp::report
