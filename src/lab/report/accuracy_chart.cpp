// Accuracy against position, the layout of the paper's figure 4: a chart per group, a line per n.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/chart.h"

namespace dp::report {
namespace {

// Every position at first, then ever fewer; the training length and the last one among them.
std::vector<size_t> sample_positions(size_t count, int64_t training_length) {
  std::set<size_t> positions = {count};
  if (training_length >= 1 && static_cast<size_t>(training_length) <= count)
    positions.insert(static_cast<size_t>(training_length));
  for (size_t p = 1; p < count; p += std::max<size_t>(1, p / 32)) positions.insert(p);
  return {positions.begin(), positions.end()};
}

std::vector<Point> accuracy_line(const Run& run, bool sequences) {
  std::vector<Point> line;
  const std::vector<double>& values = sequences ? run.sequence_by_position : run.token_by_position;
  if (!values.empty()) {
    for (const size_t p : sample_positions(values.size(), run.training_length))
      line.push_back({static_cast<double>(p), values[p - 1]});
  } else {
    for (const LengthAccuracy& row : run.lengths)
      line.push_back({static_cast<double>(row.length), sequences ? row.sequence : row.token});
  }
  return line;
}

LineChart accuracy_chart(const Group& group, bool sequences, bool log_x) {
  LineChart chart;
  chart.title = group.name;
  chart.x_title = "length";
  chart.y_title =
      sequences ? "sequences right up to this length" : "answers right at this position";
  chart.description = "Accuracy on " + group.name + " against length: share of " + chart.y_title;
  chart.log_x = log_x;
  chart.share_y = true;
  std::set<int64_t> trained;
  for (const Configuration& configuration : group.configurations) {
    Series series = {configuration.label, configuration.colour, {}};
    for (const Run* run : configuration.runs) {
      trained.insert(run->training_length);
      series.runs.push_back(accuracy_line(*run, sequences));
      chart.points |= run->sequence_by_position.empty() && !run->lengths.empty();
    }
    chart.series.push_back(std::move(series));
  }
  chart.dashed = {trained.begin(), trained.end()};
  return chart;
}

}  // namespace

std::vector<Chart> accuracy_charts(const Group& group) {
  std::vector<Chart> charts;
  for (const bool sequences : {true, false})
    for (const bool log_x : {false, true})
      charts.push_back({accuracy_chart(group, sequences, log_x),
                        {sequences ? "sequences" : "answers", log_x ? "log" : "linear"}});
  return charts;
}

}  // namespace dp::report
