// Beyond the training length: loss by position, and the effective rank of states (the paper's figures 7 to 9).
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/page.h"
#include "report/text_runs.h"

namespace dp::report {
namespace {

constexpr size_t kMostDocuments = 40;   // more rules are a grey veil
constexpr size_t kMostPositions = 256;  // of ranks, in a chart

std::vector<Point> loss_line(const Run& run) {
  std::vector<Point> line;
  const TextResults& text = run.text;
  for (const LossAt& it : text.by_position.empty() ? text.lengths : text.by_position)
    line.push_back({static_cast<double>(it.at), it.loss});
  return line;
}

std::pair<double, double> with_room(double low, double high) {
  const double room = std::max(0.01, (high - low) / 20);
  return {low - room, high + room};
}

LineChart position_chart(const Group& group, const std::string& data) {
  LineChart chart;
  chart.title = "Loss by position";
  chart.label_on_top = true;
  chart.x_title = "position";
  std::set<int64_t> trained;
  int64_t window = 0;
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const Configuration& configuration : group.configurations) {
    Series series = {configuration.label, configuration.colour, {}};
    for (const Run* run : configuration.runs) {
      if (run->text.data != data) continue;
      const std::vector<Point> line = loss_line(*run);
      if (line.empty()) continue;
      trained.insert(run->training_length);
      chart.points |= run->text.by_position.empty();
      window = std::max(window, run->text.window);

      for (const Point& point : line) low = std::min(low, point.y), high = std::max(high, point.y);
      series.runs.push_back(line);
    }
    if (!series.runs.empty()) chart.series.push_back(std::move(series));
  }
  if (low <= high) chart.range_y = with_room(low, high);

  chart.dashed = {trained.begin(), trained.end()};
  chart.y_title = data;
  if (window > 1) chart.y_title += "; moving average over " + std::to_string(window);
  chart.description = "Loss on " + data + " against the position in a long text";
  return chart;
}

// Not every position where there are many, but always the last.
std::vector<Point> rank_line(const EffectiveRanks& ranks, const std::vector<double>& values) {
  const size_t step = ranks.positions.size() / kMostPositions + 1;
  std::vector<Point> line;
  for (size_t i = 0; i < values.size(); ++i)
    if ((i % step == 0 || i + 1 == values.size()) && std::isfinite(values[i]))
      line.push_back({static_cast<double>(ranks.positions[i]), values[i]});
  return line;
}

// None: all layers.
using LayerChoice = std::optional<size_t>;

std::string choice_name(const LayerChoice& layer) {
  return layer ? "layer-" + std::to_string(*layer) : "layers";
}

bool has_ranks(const Run& run) {
  return std::ranges::any_of(run.text.ranks.layers, [](const auto& it) { return !it.empty(); });
}

// The lines that are thin: heads of a layer, or means of layers.
std::vector<std::vector<Point>> parts_of(const EffectiveRanks& ranks, const LayerChoice& layer) {
  std::vector<std::vector<Point>> lines;
  if (layer) {
    for (const std::vector<double>& head : ranks.layers[*layer])
      lines.push_back(rank_line(ranks, head));
  } else {
    for (size_t i = 0; i < ranks.layers.size(); ++i)
      if (!ranks.layers[i].empty()) lines.push_back(rank_line(ranks, ranks.mean(i)));
  }
  return lines;
}

LineChart rank_chart_frame(const std::string& title, const std::string& what, double highest) {
  LineChart chart;
  chart.label_on_top = true;
  chart.title = title;
  chart.y_title = what;
  chart.x_title = "position";
  chart.range_y = std::pair(0.0, 1.05 * std::max(1.0, highest));
  chart.description = "Effective rank of the states of " + title + " against the position: " + what;
  return chart;
}

LineChart rank_chart(const Configuration& configuration, const Run& run, const LayerChoice& layer,
                     double highest) {
  LineChart chart = rank_chart_frame(
      run_label(configuration, run),
      layer ? "effective rank in layer " + std::to_string(*layer) + ": heads, thick their mean"
            : "effective rank: layers, thick their mean",
      highest);
  chart.series = {{configuration.label, configuration.colour, parts_of(run.text.ranks, layer)}};
  chart.dashed = {run.training_length};
  if (run.text.ranks.documents.size() <= kMostDocuments) chart.faint = run.text.ranks.documents;
  chart.mean = true;
  chart.legend = false;
  return chart;
}

LineChart common_rank_chart(const Group& group, const LayerChoice& layer, double highest) {
  LineChart chart = rank_chart_frame(
      "All models",
      "mean effective rank of the heads" +
          (layer ? " of layer " + std::to_string(*layer) : std::string(" of all layers")),
      highest);
  std::set<int64_t> trained;
  for (const Configuration& configuration : group.configurations) {
    Series series = {configuration.label, configuration.colour, {}};
    for (const Run* run : configuration.runs) {
      const EffectiveRanks& ranks = run->text.ranks;
      if (!has_ranks(*run) || (layer && *layer >= ranks.layers.size())) continue;
      trained.insert(run->training_length);
      series.runs.push_back(rank_line(ranks, layer ? ranks.mean(*layer) : ranks.mean()));
    }
    if (!series.runs.empty()) chart.series.push_back(std::move(series));
  }
  chart.dashed = {trained.begin(), trained.end()};
  return chart;
}

// All layers first, then each that a model of the group has.
std::vector<LayerChoice> layer_choices(const Group& group) {
  size_t layers = 0;
  for (const Configuration& configuration : group.configurations)
    for (const Run* run : configuration.runs)
      if (has_ranks(*run)) layers = std::max(layers, run->text.ranks.layers.size());
  if (layers == 0) return {};
  std::vector<LayerChoice> choices = {std::nullopt};
  for (size_t i = 0; i < layers; ++i) choices.emplace_back(i);
  return choices;
}

// Charts of a group have the same axis, so that models can be compared.
double highest_rank(const Group& group, const LayerChoice& layer) {
  double highest = 0;
  for (const Configuration& configuration : group.configurations)
    for (const Run* run : configuration.runs) {
      if (layer && *layer >= run->text.ranks.layers.size()) continue;
      for (const std::vector<Point>& line : parts_of(run->text.ranks, layer))
        for (const Point& point : line) highest = std::max(highest, point.y);
    }
  return highest;
}

double smallest_x(const LineChart& chart) {
  double smallest = HUGE_VAL;
  for (const Series& series : chart.series)
    for (const std::vector<Point>& line : series.runs)
      if (!line.empty()) smallest = std::min(smallest, line.front().x);
  return smallest;
}

// Each of `charts`, of which the first is also for a layer that a model, or another group, does not have.
std::vector<Chart> on_both_axes(std::vector<Chart> charts) {
  if (!charts.front().when.empty()) charts.push_back({charts.front().lines, {}});
  std::vector<Chart> result;
  for (const bool log_x : {true, false})
    for (Chart chart : charts) {
      chart.lines.log_x = log_x;
      if (log_x && std::isfinite(smallest_x(chart.lines)))
        chart.lines.first_x = std::max(1.0, smallest_x(chart.lines));
      chart.when.emplace_back(log_x ? "position-log" : "position-linear");
      result.push_back(std::move(chart));
    }
  return result;
}

}  // namespace

std::vector<std::vector<Chart>> position_charts(const Group& group) {
  std::set<std::string> measured;
  for (const Configuration& configuration : group.configurations)
    for (const Run* run : configuration.runs)
      if (!loss_line(*run).empty()) measured.insert(run->text.data);
  std::vector<std::vector<Chart>> charts;
  for (const std::string& data : measured)
    charts.push_back(on_both_axes({{position_chart(group, data), {}}}));
  return charts;
}

std::vector<std::vector<Chart>> rank_charts(const Group& group) {
  const std::vector<LayerChoice> choices = layer_choices(group);
  if (choices.empty()) return {};
  std::map<LayerChoice, double> highest;
  for (const LayerChoice& layer : choices) highest[layer] = highest_rank(group, layer);
  std::vector<std::vector<Chart>> charts;
  std::vector<Chart> common;
  for (const LayerChoice& layer : choices)
    common.push_back({common_rank_chart(group, layer, highest[layer]), {choice_name(layer)}});
  charts.push_back(on_both_axes(std::move(common)));
  for (const Configuration& configuration : group.configurations) {
    for (const Run* run : configuration.runs) {
      if (!has_ranks(*run)) continue;
      std::vector<Chart> own;
      for (const LayerChoice& layer : choices)
        if (!layer || *layer < run->text.ranks.layers.size())
          own.push_back(
              {rank_chart(configuration, *run, layer, highest[layer]), {choice_name(layer)}});
      charts.push_back(on_both_axes(std::move(own)));
    }
  }
  return charts;
}

std::string rank_choices(const std::vector<Group>& groups) {
  std::set<LayerChoice> choices;
  for (const Group& group : groups)
    for (const LayerChoice& layer : layer_choices(group)) choices.insert(layer);
  std::string text;
  for (const LayerChoice& layer : choices)  // none comes first
    text += "<label><input type=\"radio\" name=\"layer\" value=\"" + choice_name(layer) + "\"" +
            (layer ? "> " + std::to_string(*layer) : " checked> all") + "</label>\n";
  return text;
}

}  // namespace dp::report
