#include "base/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace dp {
namespace {

TEST(Quote, KeepsMessagesOnOneShortLine) {
  EXPECT_EQ(quote("q"), "'q'");
  EXPECT_EQ(quote("a\nb\x1b"), "'a?b?'");
  EXPECT_EQ(quote(std::string(500, 'x')).size(), 120 + 5);
}

TEST(EditDistance, CountsSingleEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("bench", "bench"), 0);
  EXPECT_EQ(edit_distance("bnech", "bench"), 1) << "neighbours swapped";
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(ShellQuote, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(shell_quote("runs/S3_n-2.0"), "runs/S3_n-2.0");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("it's $HOME"), "'it'\\''s $HOME'");
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
