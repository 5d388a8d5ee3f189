#include "report/page.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "nn/model_size.h"
#include "report/chart.h"
#include "report/verdict.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;

// JSON inside of a script element: no < can end the element, and bytes that are no UTF-8 are replaced.
std::string script_json(const ordered_json& value) {
  std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace);
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos;)
    text.replace(at, 1, "\\u003c");  // < occurs in strings only
  return text;
}

// Charts in their places on the page; equal data is there once.
class ChartList {
 public:
  /// The element that the page's script puts one of `charts` into.
  std::string add(const std::vector<Chart>& charts) {
    auto variants = ordered_json::array();
    for (const Chart& chart : charts)
      variants.push_back({{"when", chart.when},
                          {"spec", vega_lite(chart.lines)},
                          {"data", add_data(chart.lines)}});
    places_.push_back(variants);
    return "<figure class=\"chart\" data-chart=\"" + std::to_string(places_.size() - 1) +
           "\"></figure>\n";
  }

  ordered_json json() const { return {{"charts", places_}, {"data", data_}}; }

 private:
  size_t add_data(const LineChart& chart) {
    ordered_json data = chart_data(chart);
    const std::string text = data.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    const auto [place, is_new] = known_.try_emplace(text, data_.size());
    if (is_new) data_.push_back(std::move(data));
    return place->second;
  }

  ordered_json places_ = ordered_json::array(), data_ = ordered_json::array();
  std::map<std::string, size_t> known_;
};

std::string verdicts(const std::vector<Group>& groups) {
  std::string text;
  for (const Group& group : groups) text += "<p>" + html(verdict(group)) + "</p>\n";
  // No line breaks in "n = 2" and "99 %".
  for (const std::string_view part : {" %", " = ", "= "})
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos;)
      text.replace(part == "= " ? at + 1 : at, 1, "&nbsp;");
  return text;
}

std::string problems(const Runs& runs) {
  std::string items;
  const auto add = [&](const std::string& text) { items += "<li>" + html(text) + "</li>\n"; };
  for (const std::string& problem : runs.problems) add("Left out: " + problem);
  for (const Run& run : runs.runs) {
    if (run.broken_lines > 0)
      add(run.name + "/metrics.jsonl: " + std::to_string(run.broken_lines) +
          (run.broken_lines == 1 ? " line" : " lines") + " could not be read");
    if (!run.problem.empty()) add(run.problem);
  }
  return items.empty() ? "" : "<ul class=\"problems\">\n" + items + "</ul>\n";
}

// The directory that all runs are below, with the slash at its end; empty: none, or only one run.
std::string common_directory(const std::vector<Run>& runs) {
  if (runs.size() < 2) return "";
  std::string common = runs.front().name;
  for (const Run& run : runs) {
    const auto end = std::ranges::mismatch(common, run.name).in1;
    common.erase(end, common.end());
  }
  return common.substr(0, common.rfind('/') + 1);
}

// A cell that sorts by `value`.
std::string cell(const std::string& value, const std::string& text, bool is_number) {
  return std::string("<td") + (is_number ? " class=\"number\"" : "") + " data-value=\"" +
         html(value) + "\">" + html(text) + "</td>";
}

std::string accuracy_cell(const Run& run, int64_t length, bool say_length) {
  const std::optional<double> accuracy = run.sequence_accuracy(length);
  if (!accuracy) return cell("-1", "–", true);
  char text[48];
  std::snprintf(text, sizeof text, "%.4f", *accuracy);
  return cell(text, say_length ? std::string(text) + " at " + std::to_string(length) : text, true);
}

std::string table_row(const Run& run, const std::string& name, size_t index) {
  const auto number = [](auto value) {
    return cell(std::to_string(value), std::to_string(value), true);
  };
  const std::string done = std::to_string(run.steps.empty() ? 0 : run.steps.back().step + 1);
  const std::string curriculum = run.curriculum_first_length > 0
                                     ? "from " + std::to_string(run.curriculum_first_length)
                                     : "none";
  return "<tr><td data-value=\"" + html(name) + "\"><a href=\"#run-" + std::to_string(index) +
         "\">" + html(name) + "</a></td>" + cell(run.group, run.group, false) +
         number(run.num_householder) + number(run.layers) +
         cell(run.negative_eigenvalues ? "1" : "0", run.negative_eigenvalues ? "[-1,1]" : "[0,1]",
              false) +
         number(run.seed) +
         cell(std::to_string(run.parameters), format_count(static_cast<double>(run.parameters)),
              true) +
         cell(done, done + " of " + std::to_string(run.total_steps), true) +
         cell(std::to_string(run.seconds), run.seconds > 0 ? format_duration(run.seconds) : "–",
              true) +
         number(run.training_length) + accuracy_cell(run, run.training_length, false) +
         accuracy_cell(run, run.longest(), true) +
         cell(std::to_string(run.curriculum_first_length), curriculum, false) +
         cell(run.tested ? "1" : "0",
              run.tested            ? "test"
              : run.lengths.empty() ? "none"
                                    : "validation",
              false) +
         "</tr>\n";
}

std::string settings(const Run& run, const std::string& name, size_t index) {
  return "<details id=\"run-" + std::to_string(index) + "\"><summary>" + html(name) +
         "</summary>\n<pre class=\"command\">" + html(run.command) + "</pre>\n<pre>" +
         html(run.settings) + "</pre></details>\n";
}

}  // namespace

std::string html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else if (c == '\'')
      escaped += "&#39;";
    else
      escaped += c;
  }
  return escaped;
}

std::string make_page(const Runs& runs, const WebFiles& files) {
  if (files.charts.empty())
    throw InputError(
        "this program was built without the charts of a report, because npm was missing or could "
        "not install vega; install nodejs and npm, remove '" DP_WEB_CHARTS
        "', configure and build again");
  const std::vector<Group> groups = group_runs(runs.runs);
  const std::string place = common_directory(runs.runs);
  ChartList charts;
  std::string accuracy, training, table, details;
  for (const Group& group : groups) {
    accuracy += charts.add(accuracy_charts(group));
    training += "<div class=\"grid\">\n";
    for (const Chart& chart : training_charts(group)) training += charts.add({chart});
    training += "</div>\n";
  }
  for (size_t i = 0; i < runs.runs.size(); ++i) {
    const std::string name = runs.runs[i].name.substr(place.size());
    table += table_row(runs.runs[i], name, i);
    details += settings(runs.runs[i], name, i);
  }
  return fill(files.page, [&](std::string_view name) -> std::string {
    if (name == "style") return std::string(files.style);
    if (name == "charts") return std::string(files.charts);
    if (name == "script") return std::string(files.script);
    if (name == "data") return script_json(charts.json());
    if (name == "verdicts") return verdicts(groups);
    if (name == "problems") return problems(runs);
    if (name == "accuracy") return accuracy;
    if (name == "training") return training;
    if (name == "place" && !place.empty())
      return "<p class=\"note\">Directories below " + html(place) + "</p>\n";
    if (name == "place") return "";
    if (name == "runs") return table;
    if (name == "settings") return details;
    throw std::logic_error("page.html has an unknown place: " + std::string(name));
  });
}

}  // namespace dp::report
