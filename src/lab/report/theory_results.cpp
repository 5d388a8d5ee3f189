#include "report/theory_results.h"

#include <nlohmann/json.hpp>
#include <numbers>

#include "report/page.h"

namespace dp::report {
namespace {

using nlohmann::ordered_json;
using theory::ComplexRegion;
using theory::NormSeries;
using theory::TheoryClaim;
using theory::TheoryResults;

constexpr double kDegrees = 180 / std::numbers::pi;

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
