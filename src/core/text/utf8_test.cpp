#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>

#include "text/nfc.h"

namespace dp {
namespace {

TEST(Utf8, CharactersAreWhatTheStandardSays) {
  EXPECT_EQ(utf8_character(""), 0u);
  EXPECT_EQ(utf8_character("a"), 1u);
  EXPECT_EQ(utf8_character(std::string_view("\0", 1)), 1u);
  EXPECT_EQ(utf8_character("\xc3\xa9x"), 2u);
  EXPECT_EQ(utf8_character("\xe2\x82\xac"), 3u);
  EXPECT_EQ(utf8_character("\xf0\x9f\x98\x80"), 4u);
  EXPECT_EQ(utf8_character("\xf4\x8f\xbf\xbf"), 4u);
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xe2\x82x"})
    EXPECT_EQ(utf8_character(bad), 0u) << bad;
}

TEST(Utf8, PrefixesEndAtTheFirstWrongByte) {
  const std::string ascii(100, 'a');
  EXPECT_EQ(utf8_prefix(ascii), 100u);
  EXPECT_EQ(utf8_prefix(ascii + "\xc3\xa9" + ascii), 202u);
  EXPECT_EQ(utf8_prefix(ascii + "\xc3"), 100u);
  EXPECT_EQ(utf8_prefix("\xff" + ascii), 0u);
}

TEST(Utf8, UnfinishedCharactersMayStillBecomeWhole) {
  EXPECT_EQ(utf8_unfinished("abc"), 0u);
  EXPECT_EQ(utf8_unfinished("a\xc3"), 1u);
  EXPECT_EQ(utf8_unfinished("a\xe2\x82"), 2u);
  EXPECT_EQ(utf8_unfinished("\xf0\x9f\x98"), 3u);
  EXPECT_EQ(utf8_unfinished("\xf0\x9f\x98\x80"), 0u);
  EXPECT_EQ(utf8_unfinished("\xc3\xa9"), 0u);
  EXPECT_EQ(utf8_unfinished("\xed\xa0"), 0u) << "a surrogate can never become whole";
  EXPECT_EQ(utf8_unfinished("\x80\x80\x80\x80"), 0u);
  EXPECT_EQ(utf8_unfinished("\xff"), 0u);
}

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
