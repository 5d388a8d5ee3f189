// Charts as Vega-Lite specifications.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/configurations.h"

namespace dp::report {

/// Five digits are more than a screen shows, and keep the page small.
double rounded(double value);

struct Point {
  double x = 0, y = 0;
};

/// A configuration in a chart: a thin line per run and, with several runs, a thick one of their median.
struct Series {
  std::string label, colour;
  std::vector<std::vector<Point>> runs;
  std::vector<Point> marks = {};  // points beside the lines
};

/// Lines over a common horizontal axis.
struct LineChart {
  std::string title, description;  // the latter for those who do not see it
  std::string x_title, y_title;
  std::vector<Series> series;
  std::vector<int64_t> dashed;                       // vertical rules, the training length
  bool label_on_top = false;                         // of these, otherwise half way up
  std::vector<int64_t> faint;                        // other rules, behind everything
  std::optional<std::pair<double, double>> range_y;  // what is beyond is cut off
  double first_x = 0;    // the axis begins there; a logarithmic one at 1 or beyond
  bool log_x = false;    // to base 2
  bool count_x = false;  // large numbers: 20M
  bool log_y = false;
  bool share_y = false;    // from 0 to 1, in percent
  bool unit_y = false;     // from 0 to 1, as they are
  bool steps = false;      // lines are stairs
  bool points = false;     // mark the points: there are few
  bool hold_last = false;  // a run that ends early counts with its last value in the median
  bool mean = false;       // the thick line is the mean
  bool legend = true;
};

/// One chart of the page in one of the page's settings: shown while all of `when` are chosen.
struct Chart {
  LineChart lines;
  std::vector<std::string> when;
};

/// Accuracy against position or length, of sequences and of answers, on both axes: four charts.
std::vector<Chart> accuracy_charts(const Group& group);
/// Loss, accuracy and, with a curriculum, the length against the step.
std::vector<Chart> training_charts(const Group& group);
/// Of language models: loss in training against tokens, with the validation loss as points.
std::vector<Chart> text_training_charts(const Group& group);

/// The chart alone; data is named, not included: "lines" {x, y, series, run}, "marks" {x, y, series}, "rules" {x},
/// "faint" {x} and "hover" {x, text per series}.
nlohmann::ordered_json vega_lite(const LineChart& chart);
/// That data: {"lines": [...], "rules": [...], "hover": [...], ...}.
nlohmann::ordered_json chart_data(const LineChart& chart);

}  // namespace dp::report
