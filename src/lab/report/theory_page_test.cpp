#include "report/theory_page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.h"

namespace dp::report {
namespace {

TheoryResults small_results() {
  TheoryResults results;
  results.equal_betas = theory::equal_beta_region(8);
  results.regions.push_back(theory::complex_region(std::numbers::pi / 3, 8));
  results.norms = theory::stability_series(4, 2);
  results.radii = {{0, 0}, {60, 1.23}};
  results.claims.push_back({"1 < 2", "it is", true});
  return results;
}

TEST(TheoryResults, HoldAsThePaperSays) {
  const TheoryResults results = theory_results();
  EXPECT_EQ(results.claims.size(), 5u);
  for (const TheoryClaim& claim : results.claims)
    EXPECT_TRUE(claim.holds) << claim.claim << ": " << claim.found;
}

TEST(TheoryPage, HasAllChartsAndTheTable) {
  const WebFiles web = web_files();
  const WebFiles files = {"{{title}}|{{body}}|{{data}}", "", "", "charts", "", "", web.theory};
  const std::string page = make_theory_page(small_results(), files);
  EXPECT_NE(page.find("DeltaProduct: spectra and stability"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  for (int chart = 0; chart < 5; ++chart)  // equal betas, one angle, two of norms, radii
    EXPECT_NE(page.find("data-chart=\"" + std::to_string(chart) + "\""), std::string::npos)
        << chart;
  EXPECT_EQ(page.find("data-chart=\"5\""), std::string::npos);
  EXPECT_NE(page.find("1 &lt; 2"), std::string::npos);
  EXPECT_NE(page.find("the closed form names just these"), std::string::npos);
  TheoryResults wrong = small_results();
  wrong.regions[0].disagreements = 3;
  wrong.claims.clear();
  const std::string other = make_theory_page(wrong, files);
  EXPECT_NE(other.find("the closed form differs on 3"), std::string::npos);
  EXPECT_EQ(other.find("<table>"), std::string::npos);
  EXPECT_THROW(make_theory_page(small_results(), {"", "", "", ""}), InputError);
}

TEST(TheoryCharts, DrawCellsThatAreComplexAndTheClosedForm) {
  const TheoryResults results = small_results();
  const ChartVariant chart = region_chart(results.regions[0]);
  size_t complex = 0;
  for (const std::vector<double>& row : results.regions[0].argument)
    for (const double argument : row) complex += argument > 0;
  EXPECT_GT(complex, 0u);
  EXPECT_EQ(chart.data["cells"].size(), complex);
  EXPECT_EQ(chart.data["boundary"].back()["line"], 2);
  for (const auto& cell : chart.data["cells"]) {
    EXPECT_GT(cell["a"].get<double>(), 1);
    EXPECT_GT(cell["turn"].get<double>(), 0);
  }
  // At 60 degrees two reflections turn by 120.
  EXPECT_NEAR(chart.data["cells"].back()["turn"].get<double>(), 120, 3);
}

TEST(TheoryCharts, LeaveOutLengthsOfZero) {
  const ChartVariant states = norm_chart(small_results().norms, true);
  for (const auto& row : states.data["lines"]) {
    EXPECT_GT(row["y"].get<double>(), 0);
    EXPECT_GT(row["x"].get<double>(), 0);
  }
  const ChartVariant products = norm_chart(small_results().norms, false);
  EXPECT_EQ(products.data["lines"].size(), 5u * 3u * 5u);  // series, runs and their median, steps
}

}  // namespace
}  // namespace dp::report
