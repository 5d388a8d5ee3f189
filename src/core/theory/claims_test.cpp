#include "theory/claims.h"

#include <gtest/gtest.h>

namespace dp::theory {
namespace {

TEST(TheoryResults, HoldAsThePaperSays) {
  const TheoryResults results = theory_results();
  EXPECT_EQ(results.claims.size(), 9u);
  for (const TheoryClaim& claim : results.claims)
    EXPECT_TRUE(claim.holds) << claim.claim << ": " << claim.found;
}

}  // namespace
}  // namespace dp::theory
