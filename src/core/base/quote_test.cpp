#include "base/quote.h"

#include <gtest/gtest.h>

namespace dp {
namespace {

TEST(Quote, KeepsMessagesOnOneShortLine) {
  EXPECT_EQ(quote("q"), "'q'");
  EXPECT_EQ(quote("a\nb\x1b"), "'a?b?'");
  EXPECT_EQ(quote(std::string(500, 'x')).size(), 120 + 5);
}

TEST(ShellQuote, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(shell_quote("runs/S3_n-2.0"), "runs/S3_n-2.0");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("it's $HOME"), "'it'\\''s $HOME'");
}

}  // namespace
}  // namespace dp
