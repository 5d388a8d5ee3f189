#include "tools/analysis_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "analysis/verdict.h"
#include "base/utf8.h"

namespace dp::cli {
namespace {

using analysis::Analysis;
using analysis::Head;

constexpr size_t kMostElements = 24, kMostFactors = 6;  // of the detailed table

// Columns are counted in characters, and "°" and "±" are two bytes each.
std::string padded(std::string text, size_t width) {
  const size_t length = utf8_count(text);
  return text.append(width > length ? width - length : 0, ' ');
}

// "+-90°", with its size where that is not 1: a rotation by 90 degrees. "-1": a reflection.
std::string eigenvalue_text(const std::complex<double>& value, bool pair) {
  char text[64];
  if (pair) {
    const double degrees = std::abs(std::arg(value)) * 180 / M_PI;
    if (std::abs(std::abs(value) - 1) < 0.005)
      std::snprintf(text, sizeof text, "±%.1f°", degrees);
    else
      std::snprintf(text, sizeof text, "%.2f at ±%.1f°", std::abs(value), degrees);
  } else {
    std::snprintf(text, sizeof text, "%.2f", value.real());
  }
  return text;
}

// The first few; complex pairs once.
std::string eigenvalues_text(const std::vector<std::complex<double>>& values, size_t most) {
  std::string text;
  size_t count = 0;
  for (const std::complex<double>& value : values) {
    const bool pair = std::abs(value.imag()) > 5e-3;
    if (pair && value.imag() < 0) continue;
    if (++count > most) break;
    if (!text.empty()) text += ", ";
    text += eigenvalue_text(value, pair);
  }
  return text;
}

// The first columns: a head's name, on the first of its lines only.
void print_place(const Head& head, bool with_layer, bool first) {
  if (with_layer && first)
    std::printf("%5ld  ", head.layer);
  else if (with_layer)
    std::printf("%7s", "");
  if (first)
    std::printf("%4ld", head.head);
  else
    std::printf("%4s", "");
}

void print_head(const Head& head, const Analysis& analysis) {
  const bool with_layer = analysis.layers.size() > 1;
  const analysis::Verdict verdict = judge(head, analysis.elements);
  const size_t elements = head.beta.size();
  for (size_t j = 0; j < head.factor_keys.size(); ++j) {
    double sum = 0, least = 2, most = 0;
    for (const std::vector<double>& betas : head.beta) {
      sum += betas[j];
      least = std::min(least, betas[j]);
      most = std::max(most, betas[j]);
    }
    print_place(head, with_layer, j == 0);
    const std::string near = std::to_string(verdict.near_two[j]) + "/" + std::to_string(verdict.elements);
    std::printf("  %6zu  %5.3f  %5.3f  %5.3f  %8s", j + 1, sum / static_cast<double>(elements),
                least, most, near.c_str());
    if (j == 0)
      std::printf("  %8ld  %6.1f %%   %5.3f  %5.3f   %5.3f  %5.3f", verdict.dimensions,
                  100 * verdict.in_three, head.alone.sequences, head.cut.sequences,
                  head.alone.answers, head.cut.answers);
    std::printf("\n");
  }
}

void print_heads(const Analysis& analysis) {
  const bool with_layer = analysis.layers.size() > 1;
  const char* indent = with_layer ? "       " : "";
  std::printf(
      "%s              beta                           keys                 sequences      answers\n"
      "%shead  factor   mean  least   most    near 2  for 95 %%  in three   alone    cut   alone   "
      " cut\n",
      indent, with_layer ? "layer  " : "");
  for (const analysis::Layer& layer : analysis.layers)
    for (const Head& head : layer.heads) print_head(head, analysis);
  std::printf(
      "\nnear 2: elements other than the identity with a beta of %.1f or more. keys: principal components (centred) of all "
      "the\n"
      "head's keys that hold 95 %% of their variance, and the share of the first three. alone, "
      "cut:\n"
      "how many of %ld test sequences of %ld, and of their answers, are right with this head as "
      "the\n"
      "only one of its layer, and without it; %.3f and %.3f with all.\n",
      analysis::kNearTwo, analysis.options.sequences, analysis.options.length,
      analysis.whole.sequences, analysis.whole.answers);
}

// Up to kMostElements, of every order about as many.
std::vector<size_t> choose_elements(const Analysis& analysis) {
  std::map<int64_t, size_t> orders;  // to how many there are, then to how many are taken
  for (const analysis::Element& element : analysis.elements) ++orders[element.order];
  const bool all = analysis.elements.size() <= kMostElements;
  const size_t each = all ? kMostElements : std::max<size_t>(1, kMostElements / orders.size());
  std::vector<size_t> chosen;
  orders.clear();
  for (size_t e = 0; e < analysis.elements.size(); ++e)
    if (++orders[analysis.elements[e].order] <= each) chosen.push_back(e);
  return chosen;
}

void print_elements(const Analysis& analysis, const Head& head) {
  const bool exact = analysis.layers[static_cast<size_t>(head.layer)].exact;
  size_t width = 7;
  const std::vector<size_t> chosen = choose_elements(analysis);
  const size_t factors = std::min(kMostFactors, head.factor_keys.size());
  for (const size_t e : chosen) width = std::max(width, analysis.elements[e].name.size());
  const std::string name = head_name(head, analysis);
  std::printf("\n%c%s, element by element:\n%s  order", 'H', name.c_str() + 1,
              padded("element", width).c_str());
  for (size_t j = 0; j < factors; ++j)
    std::printf("  %s", padded("beta " + std::to_string(j + 1), exact ? 6 : 13).c_str());
  std::printf("  eigenvalues%s\n", exact ? "" : " of the mean transition");
  for (const size_t e : chosen) {
    std::printf("%s  %5ld", padded(analysis.elements[e].name, width).c_str(),
                analysis.elements[e].order);
    for (size_t j = 0; j < factors; ++j) {
      char text[48];
      if (exact)
        std::snprintf(text, sizeof text, "%.3f", head.beta[e][j]);
      else
        std::snprintf(text, sizeof text, "%.3f ± %.3f", head.beta[e][j], head.beta_std[e][j]);
      std::printf("  %s", padded(text, exact ? 6 : 13).c_str());
    }
    std::printf("  %s\n", eigenvalues_text(head.eigenvalues[e], 4).c_str());
  }
  if (analysis.elements.size() > chosen.size())
    std::printf("and %zu more elements: --json FILE has them all\n",
                analysis.elements.size() - chosen.size());
  std::printf(
      "Eigenvalues that equal the gate are left out; ±90° is a pair on the unit circle, a "
      "rotation.\n");
}

}  // namespace

void print_analysis(const Analysis& analysis) {
  print_heads(analysis);
  for (size_t l = 0; l < analysis.layers.size(); ++l)
    if (!analysis.layers[l].exact)
      std::printf(
          "layer %zu depends on more than the current token: betas are means over at least %ld "
          "occurrences of each element\n",
          l, analysis.layers[l].fewest_occurrences);
  std::printf("\n");
  for (const std::string& line : summary(analysis)) std::printf("%s\n", line.c_str());
  print_elements(analysis, analysis.most_important());
}

}  // namespace dp::cli
