#include "report/theory_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "base/atomic_file.h"
#include "theory/readout.h"
#include "theory/rwkv7.h"

namespace dp::report {
namespace {

using theory::ComplexRegion;
using theory::NormSeries;

constexpr double kChartAngles[] = {15, 30, 45, 60,
                                   75};  // degrees; with equal betas, two rows of three
constexpr size_t kCells = 60, kSteps = 100, kSeeds = 5;

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

struct CellCount {
  int64_t all = 0, complex = 0, disagreements = 0;
};

CellCount count_cells(const TheoryResults& results) {
  CellCount count;
  const auto add = [&](const ComplexRegion& region) {
    count.disagreements += region.disagreements;
    for (const std::vector<double>& row : region.argument) {
      count.all += static_cast<int64_t>(row.size());
      count.complex += std::ranges::count_if(row, [](double argument) { return argument > 0; });
    }
  };
  add(results.equal_betas);
  for (const ComplexRegion& region : results.regions) add(region);
  return count;
}

// The largest norm of a product at any step and with any seed.
double largest_product(const NormSeries& series) {
  double largest = 0;
  for (const theory::Norms& run : series.runs)
    largest = std::max(largest, *std::ranges::max_element(run.product));
  return largest;
}

double largest_delta_product(const std::vector<NormSeries>& norms) {
  double largest = 0;
  for (const NormSeries& series : norms)
    if (!series.label.starts_with("RWKV-7")) largest = std::max(largest, largest_product(series));
  return largest;
}

// All n^n maps of n states: how many are there, and how many do their factors not make exactly?
std::pair<int64_t, int64_t> try_all_maps(int32_t n) {
  int64_t maps = 0, wrong = 0;
  StateMap map(static_cast<size_t>(n), 0);
  for (bool more = true; more; ++maps) {
    theory::Matrix product = theory::identity(map.size()), expected(map.size(), map.size());
    for (const auto& factor : theory::rwkv7_factors(map)) product = factor.matrix() * product;
    for (size_t q = 0; q < map.size(); ++q) expected(static_cast<size_t>(map[q]), q) = 1;
    wrong += !(product == expected);
    more = false;
    for (int32_t& target : map)
      if (more = ++target < n; more)
        break;
      else
        target = 0;
  }
  return {maps, wrong};
}

std::vector<TheoryClaim> spectra_claims(const TheoryResults& results) {
  std::vector<TheoryClaim> claims;
  const CellCount cells = count_cells(results);
  claims.push_back({"two factors have complex eigenvalues just between the bounds",
                    std::to_string(cells.disagreements) + " of " + std::to_string(cells.all) +
                        " products differ",
                    cells.disagreements == 0});
  const double largest = largest_delta_product(results.norms);
  claims.push_back({"products of DeltaProduct transitions have a norm of at most 1",
                    formatted("largest norm 1 + %.1e", std::max(0.0, largest - 1)),
                    largest <= 1 + 1e-12});
  const double radius = theory::unstable_pair_radius();
  claims.push_back(
      {"the product of the two RWKV-7 transitions has spectral radius (27 + √153) / 32",
       formatted("%.15f", radius), std::abs(radius - theory::kUnstablePairRadius) < 1e-12});
  const auto [maps, wrong] = try_all_maps(5);
  claims.push_back({"any map of n states is a product of n RWKV-7 transitions with c = 2",
                    std::to_string(wrong) + " of " + std::to_string(maps) +
                        " maps of 5 states differ in float32",
                    wrong == 0});
  const double values[] = {-1, 0, 1};
  const theory::ReadoutCheck readout =
      theory::check_readout(values, 8, theory::sufficient_base(values), 1);
  claims.push_back({"a query and an RMSNorm with eps > 0 tell all states apart",
                    std::to_string(readout.distinct) + " of " + std::to_string(readout.states) +
                        " states with 8 entries of -1, 0 or 1",
                    readout.distinct == readout.states});
  return claims;
}

std::vector<std::string> theory_summary(const TheoryResults& results) {
  const CellCount cells = count_cells(results);
  std::vector<std::string> sentences;
  sentences.push_back(
      "Two factors can turn a plane only if both betas are above 1. Of " +
      std::to_string(cells.all) + " products here " + std::to_string(cells.complex) +
      " have complex eigenvalues; the closed form " +
      (cells.disagreements == 0 ? "names just these."
                                : "differs on " + std::to_string(cells.disagreements) + "."));
  if (results.norms.empty() || results.norms.front().runs.empty()) return sentences;
  const size_t steps = results.norms.front().runs.front().product.size() - 1;
  sentences.push_back(
      "Transitions of DeltaProduct never lengthen a state: the largest norm of a product of up "
      "to " +
      std::to_string(steps) + " of them is " +
      formatted("%.4f", largest_delta_product(results.norms)) +
      ". Two transitions of RWKV-7 in turn reach " +
      formatted("%.0f", largest_product(results.norms.front())) + ".");
  return sentences;
}

std::string claims_table(const std::vector<TheoryClaim>& claims) {
  if (claims.empty()) return "";
  std::string text =
      "<section>\n<h2>Claims</h2>\n<div class=\"scroll\">\n<table>\n<thead><tr><th>claim</th>"
      "<th>found</th><th>holds</th></tr></thead>\n<tbody>\n";
  for (const TheoryClaim& claim : claims)
    text += "<tr>" + cell(claim.claim, claim.claim, false) + cell(claim.found, claim.found, false) +
            cell(claim.holds ? "1" : "0", claim.holds ? "yes" : "no", false) + "</tr>\n";
  return text + "</tbody>\n</table>\n</div>\n</section>\n";
}

}  // namespace

TheoryResults theory_results() {
  TheoryResults results;
  results.equal_betas = theory::equal_beta_region(kCells);
  for (const double degrees : kChartAngles)
    results.regions.push_back(theory::complex_region(degrees * std::numbers::pi / 180, kCells));
  results.norms = theory::stability_series(kSteps, kSeeds);
  for (int degrees = 0; degrees <= 90; ++degrees)
    results.radii.emplace_back(degrees,
                               theory::unstable_pair_radius(degrees * std::numbers::pi / 180));
  results.claims = spectra_claims(results);
  return results;
}

std::string make_theory_page(const TheoryResults& results, const WebFiles& files) {
  ChartList charts;
  std::string regions = charts.add({equal_beta_chart(results.equal_betas)});
  for (const ComplexRegion& region : results.regions) regions += charts.add({region_chart(region)});
  const std::string norms = charts.add({norm_chart(results.norms, false)}) +
                            charts.add({norm_chart(results.norms, true)}) +
                            charts.add({radius_chart(results.radii)});
  const theory::RandomRecurrence recurrence;
  const Parts parts = {{"summary", paragraphs(theory_summary(results))},
                       {"regions", regions},
                       {"norms", norms},
                       {"width", std::to_string(recurrence.width)},
                       {"factors", std::to_string(recurrence.factors)},
                       {"claims", claims_table(results.claims)}};
  return put_together(files, "DeltaProduct: spectra and stability", files.theory, parts, charts);
}

void write_theory_page(const TheoryResults& results, const std::filesystem::path& file) {
  write_file_atomically(file, make_theory_page(results, web_files()));
}

}  // namespace dp::report
