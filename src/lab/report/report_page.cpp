#include "report/report_page.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "nn/model_size.h"
#include "report/chart.h"
#include "report/languages.h"
#include "report/text_runs.h"
#include "report/verdict.h"

namespace dp::report {
namespace {

std::string hidden_if(bool none) { return none ? " hidden" : ""; }

std::vector<ChartVariant> variants(const std::vector<Chart>& charts) {
  std::vector<ChartVariant> result;
  for (const Chart& chart : charts)
    result.push_back({chart.when, vega_lite(chart.lines), chart_data(chart.lines)});
  return result;
}

// Runs by what they learn.
struct Kinds {
  std::vector<Group> word_problems, languages, texts;
};

std::string verdicts(const Kinds& kinds) {
  std::vector<std::string> sentences;
  for (const Group& group : kinds.word_problems) sentences.push_back(verdict(group));
  for (const Group& group : kinds.languages) sentences.push_back(language_verdict(group));
  for (const Group& group : kinds.texts)
    for (std::string& sentence : text_verdicts(group)) sentences.push_back(std::move(sentence));
  return paragraphs(sentences);
}

struct Titles {
  const char *title, *heading;
};

Titles titles(const Kinds& kinds) {
  if (kinds.word_problems.empty() && kinds.languages.empty() && !kinds.texts.empty())
    return {"DeltaProduct: language models", "Language models"};
  if (kinds.word_problems.empty() && kinds.texts.empty() && !kinds.languages.empty())
    return {"DeltaProduct: formal languages", "Formal languages"};
  return {"DeltaProduct: state tracking", "State tracking with DeltaProduct"};
}

std::string add_all(ChartList& charts, const std::vector<std::vector<Chart>>& places) {
  std::string text;
  for (const std::vector<Chart>& chart : places) text += charts.add(variants(chart));
  return text;
}

// Of language models: how they learnt, and how they do beyond the length that they learnt with.
Parts text_parts(const std::vector<Group>& groups, const std::vector<Run>& runs,
                 ChartList& charts) {
  std::string learning, ranks;
  for (const Group& group : groups) {
    learning += "<div class=\"grid wide\">\n";
    for (const Chart& chart : text_training_charts(group))
      learning += charts.add(variants({chart}));
    learning += add_all(charts, position_charts(group)) + "</div>\n";
    ranks += "<div class=\"grid\">\n" + add_all(charts, rank_charts(group)) + "</div>\n";
  }
  const std::string choices = rank_choices(groups);
  return {{"no_texts", hidden_if(groups.empty())},
          {"text_table", groups.empty() ? "" : text_table(groups, runs)},
          {"text_charts", learning},
          {"no_ranks", hidden_if(choices.empty())},
          {"rank_choices", choices},
          {"rank_charts", ranks}};
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

std::string accuracy_cell(const Run& run, int64_t length, bool say_length) {
  const std::optional<double> accuracy = run.sequence_accuracy(length);
  if (!accuracy) return cell("-1", "–", true);
  char text[48];
  std::snprintf(text, sizeof text, "%.4f", *accuracy);
  return cell(text, say_length ? std::string(text) + " at " + std::to_string(length) : text, true);
}

std::string scaled_cell(const Run& run) {
  const std::optional<double> mean = run.mean_scaled_accuracy();
  return mean ? cell(std::to_string(*mean), score_text(*mean), true) : cell("-2", "–", true);
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
         "\">" + html(name) + "</a></td>" + cell(run.group, run.group, false) + number(run.layers) +
         cell(run.model, run.model, false) + number(run.seed) +
         cell(std::to_string(run.parameters), format_count(static_cast<double>(run.parameters)),
              true) +
         cell(done, done + " of " + std::to_string(run.total_steps), true) +
         cell(std::to_string(run.seconds), run.seconds > 0 ? format_duration(run.seconds) : "–",
              true) +
         number(run.training_length) + accuracy_cell(run, run.training_length, false) +
         accuracy_cell(run, run.longest(), true) + scaled_cell(run) +
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

std::string make_page(const Runs& runs, const WebFiles& files) {
  const Kinds kinds = {group_runs(runs.runs), group_runs(runs.runs, TaskKind::kFormalLanguage),
                       group_runs(runs.runs, TaskKind::kText)};
  const auto& [groups, languages, texts] = kinds;
  const std::string place = common_directory(runs.runs);
  ChartList charts;
  std::string by_length, accuracy, training, table, details;
  for (const Group& group : languages) by_length += charts.add(variants({language_chart(group)}));
  for (const Group& group : groups) accuracy += charts.add(variants(accuracy_charts(group)));
  for (const std::vector<Group>& some : {groups, languages}) {
    for (const Group& group : some) {
      training += "<div class=\"grid\">\n";
      for (const Chart& chart : training_charts(group)) training += charts.add(variants({chart}));
      training += "</div>\n";
    }
  }
  for (size_t i = 0; i < runs.runs.size(); ++i) {
    const std::string name = runs.runs[i].name.substr(place.size());
    if (runs.runs[i].kind != TaskKind::kText) table += table_row(runs.runs[i], name, i);
    details += settings(runs.runs[i], name, i);
  }
  const Titles names = titles(kinds);
  Parts parts = {
      {"heading", names.heading},
      {"verdicts", verdicts(kinds)},
      {"problems", problems(runs)},
      {"no_languages", hidden_if(languages.empty())},
      {"language_table", language_table(runs.runs)},
      {"language_charts", by_length},
      {"no_word_problems", hidden_if(groups.empty())},
      {"accuracy", accuracy},
      {"no_training", hidden_if(groups.empty() && languages.empty())},
      {"training", training},
      {"place",
       place.empty() ? "" : "<p class=\"note\">Directories below " + html(place) + "</p>\n"},
      {"runs", table},
      {"settings", details}};
  parts.merge(text_parts(texts, runs.runs, charts));
  return put_together(files, names.title, files.report, parts, charts);
}

}  // namespace dp::report
