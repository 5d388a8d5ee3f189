#include "base/closest.h"

#include <gtest/gtest.h>

#include <vector>

namespace dp {
namespace {

TEST(EditDistance, CountsSingleEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("bench", "bench"), 0);
  EXPECT_EQ(edit_distance("bnech", "bench"), 1) << "neighbours swapped";
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Closest, SuggestsOnlyWhatIsAlike) {
  const std::vector<std::string> commands = {"demo", "test", "bench", "selfcheck"};
  EXPECT_EQ(closest("bnech", commands), "bench");
  EXPECT_EQ(closest("self-check", commands), "selfcheck");
  EXPECT_EQ(closest("tes", commands), "test");
  EXPECT_EQ(closest("frobnicate", commands), "");
  EXPECT_EQ(closest("x", {}), "");
}

}  // namespace
}  // namespace dp
