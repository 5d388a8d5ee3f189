#include "report/theory_results.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numbers>

#include "report/page.h"
#include "theory/readout.h"
#include "theory/rwkv7.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;
using theory::ComplexRegion;
using theory::NormSeries;

constexpr double kDegrees = 180 / std::numbers::pi;
constexpr double kChartAngles[] = {15, 30, 45, 60, 75};
constexpr size_t kCells = 60, kSteps = 100, kSeeds = 5;

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// The largest norm of a product of DeltaProduct's transitions, at any step and with any seed.
double largest_delta_product(const std::vector<NormSeries>& norms) {
  double largest = 0;
  for (const NormSeries& series : norms)
    if (!series.label.starts_with("RWKV-7"))
      for (const theory::Norms& run : series.runs)
        largest = std::max(largest, *std::ranges::max_element(run.product));
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
  size_t cells = 0;
  int64_t disagreements = 0;
  const auto count = [&](const ComplexRegion& region) {
    cells += region.x.size() * region.y.size(), disagreements += region.disagreements;
  };
  count(results.equal_betas);
  std::ranges::for_each(results.regions, count);
  claims.push_back(
      {"two factors have complex eigenvalues exactly between the two bounds",
       std::to_string(disagreements) + " of " + std::to_string(cells) + " products differ",
       disagreements == 0});
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

// `y_unit` turns its second coordinate into what the page shows.
ordered_json region_data(const ComplexRegion& region, double y_unit) {
  std::vector<double> y = region.y;
  for (double& value : y) value *= y_unit;
  auto turn = ordered_json::array(), boundary = ordered_json::array();
  for (std::vector<double> row : region.argument) {
    for (double& argument : row) argument *= kDegrees;
    turn.push_back(row);
  }
  for (const auto& line : region.boundary) {
    boundary.push_back(ordered_json::array());
    for (const ComplexRegion::Place& place : line)
      boundary.back().push_back({place.x, y_unit * place.y});
  }
  return {{"theta", kDegrees * region.theta},
          {"x", region.x},
          {"y", y},
          {"turn", turn},
          {"boundary", boundary},
          {"disagreements", region.disagreements}};
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

ordered_json theory_data(const TheoryResults& results) {
  auto regions = ordered_json::array(), norms = ordered_json::array(),
       claims = ordered_json::array();
  for (const ComplexRegion& region : results.regions) regions.push_back(region_data(region, 1));
  for (const NormSeries& series : results.norms) {
    auto runs = ordered_json::array();
    for (const theory::Norms& run : series.runs)
      runs.push_back({{"product", run.product}, {"state", run.state}});
    norms.push_back({{"label", series.label}, {"runs", std::move(runs)}});
  }
  for (const TheoryClaim& claim : results.claims)
    claims.push_back({{"claim", claim.claim}, {"found", claim.found}, {"holds", claim.holds}});
  const theory::RandomRecurrence recurrence;
  return rounded({{"page", "theory"},
                  {"width", recurrence.width},
                  {"factors", recurrence.factors},
                  {"equal_betas", region_data(results.equal_betas, kDegrees)},
                  {"regions", std::move(regions)},
                  {"norms", std::move(norms)},
                  {"radii", results.radii},
                  {"claims", std::move(claims)}});
}

}  // namespace dp::report
