// Language models side by side.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "base/progress.h"
#include "nn/model_size.h"
#include "report/page.h"
#include "report/text_runs.h"

namespace dp::report {
namespace {

struct TextRow {
  const Configuration* configuration;
  const Run* run;
};

// What a row has in a column; no text: nothing.
struct TextCell {
  std::string text;
  double value = NAN;                  // to sort by; NaN: none
  std::optional<double> worse = {};    // the smallest of the column is bold; none: never
  std::string aside = {}, title = {};  // in small print; tooltip
};

struct TextColumn {
  std::string head;
  std::vector<TextCell> cells;
};

std::string digits(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string name_of_file(const std::string& file) {
  const size_t begin = file.rfind('/') == std::string::npos ? 0 : file.rfind('/') + 1;
  return file.substr(begin, file.find('.', begin) - begin);
}

template <class Cell>
TextColumn column_of(const std::vector<TextRow>& rows, const std::string& head, Cell cell_of) {
  TextColumn column = {head, {}};
  for (const TextRow& row : rows) column.cells.push_back(cell_of(*row.run));
  return column;
}

// Where a length is the same for all, the head says it.
template <class Loss>
TextColumn loss_column(const std::vector<TextRow>& rows, const std::string& where, Loss loss_of) {
  std::set<int64_t> lengths;
  for (const TextRow& row : rows)
    if (const std::optional<LossAt> loss = loss_of(*row.run)) lengths.insert(loss->at);
  const bool same = lengths.size() == 1;
  return column_of(
      rows, "loss at " + (same ? std::to_string(*lengths.begin()) : where),
      [&](const Run& run) -> TextCell {
        const std::optional<LossAt> it = loss_of(run);
        if (!it) return {};
        return {digits("%.3f", it->loss), it->loss, {}, same ? "" : "at " + std::to_string(it->at)};
      });
}

TextCell change_cell(const Run& run) {
  const std::optional<LossChange> change = loss_change(run);
  if (!change) return {};
  const double rise = change->last - change->first;
  return {digits("%+.3f", rise), rise, rise};
}

TextCell rank_cell(const Run& run) {
  const std::optional<RankChange> change = rank_change(run);
  if (!change) return {};
  return {digits("%.1f", change->first) + " → " + digits("%.1f", change->last),
          change->last - change->first,
          {},
          {},
          "in the second half of the training length, and in the last quarter of " +
              std::to_string(change->length) + " tokens"};
}

TextCell examination_cell(const std::vector<Examination>& all, const std::string& file) {
  const auto it = std::ranges::find(all, file, &Examination::file);
  if (it == all.end()) return {};
  TextCell cell = {digits("%.1f %%", 100 * it->accuracy), it->accuracy, -it->accuracy};
  if (it->normalised) cell.aside = digits("%.1f %%", 100 * *it->normalised) + " by length";
  if (it->perplexity) cell.aside = "perplexity " + digits("%.4g", *it->perplexity);
  cell.title = file + ", " + std::to_string(it->items) + " items";
  return cell;
}

// A column for each file that a run was examined with.
void add_examinations(const std::vector<TextRow>& rows, std::vector<Examination> TextResults::*kind,
                      std::vector<TextColumn>& columns) {
  std::vector<std::string> files;
  for (const TextRow& row : rows)
    for (const Examination& it : row.run->text.*kind)
      if (std::ranges::find(files, it.file) == files.end()) files.push_back(it.file);
  for (const std::string& file : files)
    columns.push_back(column_of(rows, name_of_file(file), [&](const Run& run) {
      return examination_cell(run.text.*kind, file);
    }));
}

std::vector<TextColumn> text_columns(const std::vector<TextRow>& rows) {
  std::vector<TextColumn> columns;
  const auto add = [&](const char* head, auto cell_of) {
    columns.push_back(column_of(rows, head, cell_of));
  };
  add("parameters", [](const Run& run) {
    return TextCell{format_count(static_cast<double>(run.parameters)),
                    static_cast<double>(run.parameters)};
  });
  add("tokens trained on", [](const Run& run) {
    const int64_t steps = run.steps.empty() ? 0 : run.steps.back().step + 1;
    TextCell cell = {format_count(static_cast<double>(run.text.tokens)),
                     static_cast<double>(run.text.tokens)};
    cell.title = std::to_string(steps) + " of " + std::to_string(run.total_steps) + " steps";
    if (run.seconds > 0) cell.title += " in " + format_duration(run.seconds);
    if (steps < run.total_steps)
      cell.aside = digits(
          "%.0f %%", 100.0 * static_cast<double>(steps) / static_cast<double>(run.total_steps));
    return cell;
  });
  add("tokens per second", [](const Run& run) {
    const double rate = run.text.tokens_per_second;
    return rate > 0 ? TextCell{digits("%.0f", rate), rate, -rate} : TextCell{};
  });
  add("perplexity", [](const Run& run) {
    const std::optional<double> perplexity = perplexity_of(run);
    if (!perplexity) return TextCell{};
    TextCell cell = {digits("%.2f", *perplexity), *perplexity, *perplexity};
    cell.title = measured_on(run);
    if (run.text.perplexity)
      cell.aside =
          run.text.bits_per_byte ? digits("%.3f", *run.text.bits_per_byte) + " bits/byte" : "";
    else
      cell.aside = "in training";
    return cell;
  });
  columns.push_back(loss_column(rows, "the training length", [](const Run& run) {
    const std::optional<double> loss = run.text.loss_at(run.training_length);
    return loss ? std::optional(LossAt{run.training_length, *loss}) : std::nullopt;
  }));
  columns.push_back(loss_column(rows, "the longest", [](const Run& run) {
    return run.text.lengths.empty() ? std::nullopt : std::optional(run.text.lengths.back());
  }));
  add("difference", change_cell);
  add("effective rank", rank_cell);
  add_examinations(rows, &TextResults::choices, columns);
  add_examinations(rows, &TextResults::last_words, columns);
  // What nobody has is not worth a column.
  std::erase_if(columns, [](const TextColumn& column) {
    return std::ranges::all_of(column.cells, [](const TextCell& it) { return it.text.empty(); });
  });
  return columns;
}

std::string html_of(const TextCell& cell, bool best) {
  if (cell.text.empty()) return "<td class=\"number\" data-value=\"-1e99\">–</td>";
  return "<td class=\"number\" data-value=\"" + digits("%.9g", cell.value) + "\"" +
         (cell.title.empty() ? "" : " title=\"" + html(cell.title) + "\"") + ">" +
         (best ? "<b>" + html(cell.text) + "</b>" : html(cell.text)) +
         (cell.aside.empty() ? "" : " <small>" + html(cell.aside) + "</small>") + "</td>";
}

}  // namespace

std::string text_table(const std::vector<Group>& groups, const std::vector<Run>& runs) {
  std::vector<TextRow> rows;
  for (const Group& group : groups)
    for (const Configuration& configuration : group.configurations)
      for (const Run* run : configuration.runs) rows.push_back({&configuration, run});
  const std::vector<TextColumn> columns = text_columns(rows);
  const bool several = groups.size() > 1;
  std::string text = "<thead><tr><th>model</th>";
  if (several) text += "<th>trained on</th>";
  for (const TextColumn& column : columns) text += "<th>" + html(column.head) + "</th>";
  text += "</tr></thead>\n<tbody>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [configuration, run] = rows[i];
    const std::string label = run_label(*configuration, *run);
    text += "<tr><td data-value=\"" + html(label) + "\" title=\"" + html(run->name) +
            "\"><span class=\"swatch\" style=\"background: " + configuration->colour +
            "\"></span><a href=\"#run-" + std::to_string(run - runs.data()) + "\">" + html(label) +
            "</a></td>";
    if (several) text += cell(run->group, run->group, false);
    for (const TextColumn& column : columns) {
      // Best among those of the same data, and only if there is another to compare with.
      const auto comparable = [&](size_t j) {
        return rows[j].run->group == run->group && rows[j].run->text.data == run->text.data &&
               column.cells[j].worse;
      };
      size_t others = 0, better = 0;
      if (comparable(i))
        for (size_t j = 0; j < rows.size(); ++j)
          if (j != i && comparable(j))
            ++others, better += *column.cells[j].worse < *column.cells[i].worse;
      text += html_of(column.cells[i], others > 0 && better == 0);
    }
    text += "</tr>\n";
  }
  return text + "</tbody>\n";
}

}  // namespace dp::report
