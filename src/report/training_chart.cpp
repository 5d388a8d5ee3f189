// How training went: loss, accuracy and the length of sequences against the step.
#include <algorithm>

#include "report/chart.h"

namespace dp::report {
namespace {

// Steps of a run are averaged in so many parts at most: more is not visible.
constexpr int64_t kMostPoints = 240;
constexpr double kSmallestLoss = 1e-6;  // a logarithmic axis has no zero

// A point for each `width` steps: the mean, or the value at their end.
template <class Value>
std::vector<Point> in_parts(const Run& run, int64_t width, bool mean, Value value) {
  std::vector<Point> line;
  for (size_t begin = 0; begin < run.steps.size();) {
    const int64_t part = run.steps[begin].step / width;
    double sum = 0;
    size_t end = begin;
    for (; end < run.steps.size() && run.steps[end].step / width == part; ++end)
      sum += value(run.steps[end]);
    line.push_back({static_cast<double>(part + 1) * static_cast<double>(width),
                    mean ? sum / static_cast<double>(end - begin) : value(run.steps[end - 1])});
    begin = end;
  }
  return line;
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

}  // namespace dp::report
