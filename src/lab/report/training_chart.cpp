// How training went: loss, accuracy and the length of sequences against the step.
#include <algorithm>
#include <cmath>

#include "report/chart.h"

namespace dp::report {
namespace {

// Steps of a run are averaged in so many parts at most: more is not visible.
constexpr int64_t kMostPoints = 240;
constexpr int64_t kMostTextPoints = 80;  // the losses of batches of text differ much
constexpr double kSmallestLoss = 1e-6;   // a logarithmic axis has no zero

int64_t step_of(const TrainingStep& step) { return step.step; }
int64_t tokens_before(const TrainingStep& step) { return std::max<int64_t>(0, step.tokens - 1); }

// A point for each `width` steps, or tokens: the mean, or the value at their end.
template <class Value, class Place = decltype(&step_of)>
std::vector<Point> in_parts(const Run& run, int64_t width, bool mean, Value value,
                            Place place = &step_of) {
  std::vector<Point> line;
  for (size_t begin = 0; begin < run.steps.size();) {
    const int64_t part = place(run.steps[begin]) / width;
    double sum = 0;
    size_t end = begin;
    for (; end < run.steps.size() && place(run.steps[end]) / width == part; ++end)
      sum += value(run.steps[end]);
    line.push_back({static_cast<double>(part + 1) * static_cast<double>(width),
                    mean ? sum / static_cast<double>(end - begin) : value(run.steps[end - 1])});
    begin = end;
  }
  return line;
}

// The fall at the beginning would leave no room for the differences that count: the axis ends at the highest
// value after a tenth of the training.
std::optional<std::pair<double, double>> late_range(const std::vector<Series>& all, double last_x) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  const auto see = [&](const Point& point) {
    low = std::min(low, point.y);
    if (point.x >= last_x / 10) high = std::max(high, point.y);
  };
  for (const Series& series : all) {
    for (const std::vector<Point>& run : series.runs) std::ranges::for_each(run, see);
    std::ranges::for_each(series.marks, see);
  }
  if (low > high) return std::nullopt;
  const double room = std::max(0.01, (high - low) / 20);
  return std::pair(low - room, high + room);
}

template <class Line>
LineChart training_chart(const Group& group, const std::string& what, Line line_of) {
  LineChart chart;
  chart.title = group.name;
  chart.x_title = "step";
  chart.y_title = what;
  chart.hold_last = true;
  chart.description = "Training on " + group.name + ": " + what + " against the step";
  for (const Configuration& configuration : group.configurations) {
    Series series = {configuration.label, configuration.colour, {}};
    for (const Run* run : configuration.runs) series.runs.push_back(line_of(*run));
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::vector<Chart> training_charts(const Group& group) {
  int64_t steps = 1;
  bool curriculum = false, any = false;
  for (const Configuration& configuration : group.configurations) {
    for (const Run* run : configuration.runs) {
      if (run->steps.empty()) continue;
      any = true;
      steps = std::max(steps, run->steps.back().step + 1);
      curriculum |= run->curriculum_first_length > 0;
    }
  }
  if (!any) return {};
  const int64_t width = (steps + kMostPoints - 1) / kMostPoints;
  LineChart loss = training_chart(group, "loss in training", [&](const Run& run) {
    std::vector<Point> line =
        in_parts(run, width, true, [](const TrainingStep& step) { return step.loss; });
    for (Point& point : line) point.y = std::max(point.y, kSmallestLoss);
    return line;
  });
  loss.log_y = true;
  LineChart accuracy = training_chart(group, "answers right in training", [&](const Run& run) {
    return in_parts(run, width, true, [](const TrainingStep& step) { return step.accuracy; });
  });
  accuracy.share_y = true;
  std::vector<Chart> charts = {{loss, {}}, {accuracy, {}}};
  if (curriculum) {
    LineChart length = training_chart(group, "length of training sequences", [&](const Run& run) {
      return in_parts(run, width, false,
                      [](const TrainingStep& step) { return static_cast<double>(step.length); });
    });
    length.steps = true;
    charts.push_back({length, {}});
  }
  return charts;
}

std::vector<Chart> text_training_charts(const Group& group) {
  int64_t tokens = 0;
  for (const Configuration& configuration : group.configurations)
    for (const Run* run : configuration.runs)
      if (!run->steps.empty()) tokens = std::max(tokens, run->text.tokens);
  if (tokens < 1) return {};
  const int64_t width = (tokens + kMostTextPoints - 1) / kMostTextPoints;
  LineChart chart = training_chart(group, group.name + "; points: validation", [&](const Run& run) {
    std::vector<Point> line = in_parts(
        run, width, true, [](const TrainingStep& step) { return step.loss; }, &tokens_before);
    if (!line.empty()) line.back().x = static_cast<double>(run.text.tokens);
    return line;
  });
  chart.title = "Loss in training";
  chart.x_title = "tokens";
  chart.count_x = true;
  chart.description = "Training on " + group.name + ": loss against tokens";
  for (size_t i = 0; i < chart.series.size(); ++i)
    for (const Run* run : group.configurations[i].runs)
      for (const LossAt& it : run->text.validation)
        chart.series[i].marks.push_back({static_cast<double>(it.at), it.loss});
  chart.range_y = late_range(chart.series, static_cast<double>(tokens));
  return {{chart, {}}};
}

}  // namespace dp::report
