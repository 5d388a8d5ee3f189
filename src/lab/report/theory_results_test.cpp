#include "report/theory_results.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numbers>

namespace dp::report {
namespace {

using theory::TheoryResults;

TEST(TheoryResults, AsJsonAreInDegrees) {
  TheoryResults results;
  results.equal_betas = theory::equal_beta_region(8);
  results.regions.push_back(theory::complex_region(std::numbers::pi / 3, 8));
  results.norms = theory::stability_series(4, 2);
  results.radii = {{60, 1.23}};
  const nlohmann::ordered_json data = theory_data(results);
  EXPECT_EQ(data["page"], "theory");
  EXPECT_NEAR(data["regions"][0]["theta"].get<double>(), 60, 1e-9);
  EXPECT_NEAR(data["equal_betas"]["y"].back().get<double>(), 90 - 90.0 / 16, 1e-3);
  ASSERT_EQ(data["regions"][0]["turn"].size(), 8u);
  double most = 0;
  for (const auto& row : data["regions"][0]["turn"])
    for (const auto& turn : row) most = std::max(most, turn.get<double>());
  EXPECT_GT(most, 90);
  EXPECT_LT(most, 180);
  EXPECT_EQ(data["norms"][0]["runs"][0]["product"].size(), 5u);
  EXPECT_EQ(data["radii"][0][0], 60);
}

}  // namespace
}  // namespace dp::report
