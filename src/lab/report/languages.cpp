#include "report/languages.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "report/page.h"
#include "report/paper_table.h"

namespace dp::report {
namespace {

// The name of a model's row: DeltaProduct with one factor per token is DeltaNet.
std::string row_name(const std::string& model) {
  const std::string one = "DeltaProduct_1 ";
  return model.starts_with(one) ? "DeltaNet " + model.substr(one.size()) : model;
}

const PaperRow* paper_row(const std::string& model) {
  const auto row = std::ranges::find(paper_rows(), row_name(model),
                                     [](const PaperRow& it) { return std::string(it.model); });
  return row == paper_rows().end() ? nullptr : &*row;
}

std::optional<double> paper_score(const std::string& model, const std::string& task) {
  const PaperRow* row = paper_row(model);
  const auto* column = std::ranges::find(kPaperTasks, task);
  if (!row || column == kPaperTasks.end()) return std::nullopt;
  return row->scores[static_cast<size_t>(column - kPaperTasks.begin())];
}

// The best first.
using Scores = std::vector<std::pair<double, const Run*>>;

void add_score(Scores& scores, const Run& run) {
  const std::optional<double> score = run.mean_scaled_accuracy();
  if (!score) return;
  const auto place =
      std::ranges::find_if(scores, [&](const auto& it) { return it.first < *score; });
  scores.insert(place, {*score, &run});
}

std::string empty_cell() { return cell("-2", "–", true); }

std::string paper_cell(std::optional<double> score) {
  return score ? cell(score_text(*score), score_text(*score), true) : empty_cell();
}

std::string measured_cell(const Scores& scores) {
  if (scores.empty()) return empty_cell();
  std::string others, runs;
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto& [score, run] = scores[i];
    if (i > 0) others += (i > 1 ? ", " : "") + score_text(score);
    runs += (runs.empty() ? "" : "\n") + score_text(score) + ": " + run->name;
  }
  return "<td class=\"number\" data-value=\"" + std::to_string(scores[0].first) + "\" title=\"" +
         html(runs) + "\">" + (others.empty() ? "" : "<small>" + others + "</small> ") + "<b>" +
         score_text(scores[0].first) + "</b></td>";
}

// "DeltaProduct_2 [0,1]" with a small 2.
std::string model_cell(const std::string& model) {
  std::string text = html(model);
  if (const size_t at = text.find('_'); at != std::string::npos) {
    const size_t end = std::min(text.find(' ', at), text.size());
    text = text.substr(0, at) + "<sub>" + text.substr(at + 1, end - at - 1) + "</sub>" +
           text.substr(end);
  }
  return "<td data-value=\"" + html(model) + "\">" + text + "</td>";
}

std::optional<double> mean_of(const std::vector<std::optional<double>>& scores) {
  double sum = 0;
  for (const std::optional<double>& score : scores) {
    if (!score) return std::nullopt;
    sum += *score;
  }
  return sum / static_cast<double>(scores.size());
}

}  // namespace

std::string score_text(double score) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", score);
  return std::string(text) == "-0.000" ? "0.000" : text;
}

std::string language_table(const std::vector<Run>& runs) {
  std::map<std::string, std::map<std::string, Scores>> measured;  // by row and task
  std::vector<std::string> rows;
  for (const PaperRow& row : paper_rows()) rows.emplace_back(row.model);
  for (const Run& run : runs) {
    if (run.kind != TaskKind::kFormalLanguage) continue;
    const std::string name = row_name(run.model);
    if (std::ranges::find(rows, name) == rows.end()) rows.push_back(name);
    add_score(measured[name][run.group], run);
  }
  std::string text;
  for (const std::string& name : rows) {
    text += "<tr>" + model_cell(name);
    std::vector<std::optional<double>> ours, theirs;
    for (const char* task : kPaperTasks) {
      const Scores& scores = measured[name][task];
      ours.push_back(scores.empty() ? std::nullopt : std::optional(scores[0].first));
      theirs.push_back(paper_score(name, task));
      text += measured_cell(scores) + paper_cell(theirs.back());
    }
    text += paper_cell(mean_of(ours)) + paper_cell(mean_of(theirs)) + "</tr>\n";
  }
  return text;
}

Chart language_chart(const Group& group) {
  LineChart chart;
  chart.title = group.name;
  chart.x_title = "length";
  chart.y_title = "scaled accuracy at this length";
  chart.description = "Scaled accuracy on " + group.name + " against length";
  chart.unit_y = chart.points = true;
  std::set<int64_t> trained;
  for (const Configuration& configuration : group.configurations) {
    Series series = {configuration.label, configuration.colour, {}};
    for (const Run* run : configuration.runs) {
      trained.insert(run->training_length);
      std::vector<Point>& line = series.runs.emplace_back();
      for (const LengthAccuracy& row : run->lengths)
        if (row.scaled)
          line.push_back({static_cast<double>(row.length), std::max(0.0, *row.scaled)});
    }
    chart.series.push_back(std::move(series));
  }
  chart.dashed = {trained.begin(), trained.end()};
  return {chart, {}};
}

std::string language_verdict(const Group& group) {
  std::map<std::string, Scores> measured;
  for (const Configuration& configuration : group.configurations)
    for (const Run* run : configuration.runs) add_score(measured[row_name(run->model)], *run);
  std::vector<std::pair<double, std::string>> best;
  for (const auto& [model, scores] : measured)
    if (!scores.empty()) best.emplace_back(scores[0].first, model);
  if (best.empty()) return group.name + ": no run was evaluated.";
  std::ranges::stable_sort(best, std::ranges::greater(), &std::pair<double, std::string>::first);
  std::string text = group.name + ", scaled accuracy: ";
  for (size_t i = 0; i < best.size(); ++i) {
    const auto& [score, model] = best[i];
    text += (i ? ", " : "") + model + " " + score_text(score);
    if (const std::optional<double> theirs = paper_score(model, group.name))
      text += " (paper: " + score_text(*theirs) + ")";
  }
  return text + ".";
}

}  // namespace dp::report
