#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

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

TEST(Utf8, EncodesWhatItDecodes) {
  for (const char32_t point : {0x0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff}) {
    const std::string text = utf8_encode(point);
    EXPECT_EQ(utf8_character(text), text.size());
    EXPECT_EQ(utf8_decode(text), point);
    EXPECT_EQ(utf8_count(text + "x" + text), 3u);
  }
  EXPECT_EQ(utf8_encode(0x20ac), "\xe2\x82\xac");
}

}  // namespace
}  // namespace dp
