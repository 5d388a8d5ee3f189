#include "report/analysis_page.h"

#include <algorithm>
#include <cstdio>

#include "analysis/verdict.h"
#include "base/atomic_file.h"

namespace dp::report {
namespace {

using analysis::Analysis;
using analysis::Head;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

std::string number_cell(double value) { return cell(number(value), number(value), true); }

// Of all factors: "1.21 to 2.00".
std::string beta_range(const Head& head) {
  double least = 2, most = 0;
  for (const std::vector<double>& betas : head.beta)
    for (const double beta : betas) least = std::min(least, beta), most = std::max(most, beta);
  return number(least) + " to " + number(most);
}

std::string table_row(const Head& head, const Analysis& analysis) {
  const analysis::Verdict verdict = judge(head);
  std::string near;
  int64_t fewest = verdict.near_two.front();
  for (const int64_t count : verdict.near_two) {
    near += (near.empty() ? "" : ", ") + std::to_string(count);
    fewest = std::min(fewest, count);
  }
  const auto integer = [](int64_t value) {
    return cell(std::to_string(value), std::to_string(value), true);
  };
  std::string row = "<tr>";
  row += cell(std::to_string(head.layer * 10000 + head.head), name_of(head, analysis), false);
  row += number_cell(head.alone.sequences) + number_cell(head.alone.answers);
  row += number_cell(head.cut.sequences) + number_cell(head.cut.answers);
  row += cell(std::to_string(fewest), near, true);
  row += cell(beta_range(head), beta_range(head), true);
  row += integer(verdict.dimensions) + number_cell(verdict.in_three);
  row += cell(verdict.as_in_paper ? "0" : verdict.reflections ? "1" : "2", verdict.words, false);
  return row + "</tr>\n";
}

std::string choices(const Analysis& analysis) {
  const Head& first = analysis.most_important();
  std::string text;
  for (const analysis::Layer& layer : analysis.layers) {
    text += "<fieldset><legend>";
    text += analysis.layers.size() > 1
                ? "Layer " + std::to_string(layer.heads.front().layer) + ", head"
                : std::string("Head");
    text += "</legend>\n";
    for (const Head& head : layer.heads)
      text += "<label><input type=\"radio\" name=\"head\" value=\"" + choice_of(head) + "\"" +
              (&head == &first ? " checked" : "") + "> " + std::to_string(head.head) + "</label>\n";
    text += "</fieldset>\n";
  }
  return text;
}

std::string note(const Analysis& analysis) {
  std::string text;
  const bool exact = std::ranges::all_of(analysis.layers,
                                         [](const analysis::Layer& layer) { return layer.exact; });
  if (!exact)
    text += "Where a layer sees more than the current token, betas and keys are means over " +
            std::to_string(analysis.options.sequences) + " test sequences of length " +
            std::to_string(analysis.options.length) +
            ", and eigenvalues are those of the mean transition matrix. ";
  if (analysis.elements.size() > kMostElements)
    text += "Charts show the first " + std::to_string(kMostElements) + " of " +
            std::to_string(analysis.elements.size()) + " elements.";
  return text.empty() ? "" : "<p class=\"note\">" + html(text) + "</p>\n";
}

}  // namespace

std::string make_analysis_page(const Analysis& analysis, const WebFiles& files) {
  ChartList charts;
  std::string rows, betas, one_head;
  const std::string work =
      charts.add({heads_chart(analysis, false)}) + charts.add({heads_chart(analysis, true)});
  std::vector<ChartVariant> eigenvalues, keys, depths, variances;
  for (size_t l = 0; l < analysis.layers.size(); ++l) {
    betas += charts.add({beta_chart(analysis, l)});
    for (const Head& head : analysis.layers[l].heads) {
      rows += table_row(head, analysis);
      eigenvalues.push_back(eigenvalue_chart(analysis, head));
      keys.push_back(key_chart(analysis, head, 1));
      depths.push_back(key_chart(analysis, head, 2));
      variances.push_back(variance_chart(analysis, head));
    }
  }
  for (const auto& variants : {eigenvalues, keys, depths, variances})
    one_head += charts.add(variants);
  const Parts parts = {{"group", html(analysis.group)},
                       {"summary", paragraphs(summary(analysis))},
                       {"work", work},
                       {"heads", rows},
                       {"betas", betas},
                       {"choices", choices(analysis)},
                       {"head", one_head},
                       {"note", note(analysis)},
                       {"sequences", std::to_string(analysis.options.sequences)},
                       {"length", std::to_string(analysis.options.length)}};
  return put_together(files, "DeltaProduct: the heads of a model for " + analysis.group,
                      files.analysis, parts, charts);
}

void write_analysis_page(const Analysis& analysis, const std::filesystem::path& file) {
  write_file_atomically(file, make_analysis_page(analysis, web_files()));
}

}  // namespace dp::report
