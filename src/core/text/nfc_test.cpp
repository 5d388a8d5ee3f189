#include "text/nfc.h"

#include <gtest/gtest.h>

namespace dp {
namespace {

// Examples of the standard's annex 15, and what its tests are known for.
TEST(Nfc, ComposesAsUnicodeSays) {
  const auto nfc = [](const char* text) { return normalized_nfc(text); };
  EXPECT_EQ(nfc("plain"), "plain");
  EXPECT_EQ(nfc("e\xcc\x81"), "\xc3\xa9");
  EXPECT_EQ(nfc("\xc3\xa9"), "\xc3\xa9");
  EXPECT_EQ(nfc("\xe2\x84\xab"), "\xc3\x85") << "the sign for Angstrom is a letter";
  EXPECT_EQ(nfc("s\xcc\x87\xcc\xa3"), "\xe1\xb9\xa9") << "marks are put in order";
  EXPECT_EQ(nfc("\xe1\xb8\x8b\xcc\xa3"), "\xe1\xb8\x8d\xcc\x87") << "taken apart and composed anew";
  EXPECT_EQ(nfc("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"), "\xed\x95\x9c") << "Hangul: han";
  EXPECT_EQ(nfc("\xea\xb0\x80\xe1\x86\xa8"), "\xea\xb0\x81") << "a syllable and a tail";
  EXPECT_EQ(nfc("\xe0\xa5\x98"), "\xe0\xa4\x95\xe0\xa4\xbc") << "excluded from composition";
  EXPECT_EQ(nfc("\xef\xa4\x80"), "\xe8\xb1\x88") << "a compatibility ideograph";
  EXPECT_EQ(nfc("a\xcc\x81\xcc\x81"), "\xc3\xa1\xcc\x81") << "the second acute stays";
  EXPECT_EQ(nfc("\xcc\x81"
                "a"),
            "\xcc\x81"
            "a")
      << "a mark with nothing before it";
}

TEST(Nfc, MostTextIsSeenToBeNormalAtOnce) {
  EXPECT_TRUE(
      is_surely_nfc("plain caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xed\x95\x9c \xf0\x9f\x98\x80"));
  EXPECT_FALSE(is_surely_nfc("cafe\xcc\x81"));
  EXPECT_FALSE(is_surely_nfc("\xe1\x84\x92\xe1\x85\xa1"));
  EXPECT_FALSE(is_surely_nfc("\xe2\x84\xab"));
}

}  // namespace
}  // namespace dp
