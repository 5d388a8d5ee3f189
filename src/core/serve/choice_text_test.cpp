#include "serve/choice_text.h"

#include <gtest/gtest.h>

#include "serve/histogram.h"

namespace dp::serve {
namespace {

TEST(StopText, EndsAtTheFirstStopString) {
  StopText stop({"END", "\n\n"});
  EXPECT_EQ(stop.feed("one E"), "one ");
  EXPECT_EQ(stop.feed("N"), "");
  EXPECT_EQ(stop.feed("T two\n"), "ENT two");
  EXPECT_EQ(stop.feed("x\n"), "\nx");
  EXPECT_EQ(stop.feed("\nEND"), "");
  EXPECT_TRUE(stop.found());
  EXPECT_EQ(stop.feed("more"), "");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopText, GivesBackWhatWasHeldFor) {
  StopText stop({"aab"});
  EXPECT_EQ(stop.feed("aaaa"), "aa");
  EXPECT_EQ(stop.finish(), "aa");
  EXPECT_FALSE(stop.found());
  EXPECT_EQ(StopText({}).feed("text"), "text");
}

TEST(StopText, IsTheSameHoweverTheTextIsCut) {
  const std::string text = "abcabdabcabcabe and so on";
  for (const std::string stop : {"abcabe", "cabd", "n", "nothing"}) {
    const size_t at = text.find(stop);
    for (size_t size = 1; size < 9; ++size) {
      StopText filter({stop});
      std::string shown;
      for (size_t begin = 0; begin < text.size() && !filter.found(); begin += size)
        shown += filter.feed(std::string_view(text).substr(begin, size));
      if (!filter.found()) shown += filter.finish();
      EXPECT_EQ(shown, text.substr(0, at)) << stop << " in pieces of " << size;
    }
  }
}

/// Feeds bytes as tokens; text and the offsets of the tokens that were shown.
std::pair<std::string, std::vector<int64_t>> run(ChoiceText& choice, const std::string& bytes) {
  std::string text;
  std::vector<int64_t> offsets;
  const auto take = [&](const TextPiece& piece) {
    text += piece.text;
    for (const TokenText& token : piece.tokens) offsets.push_back(token.offset);
  };
  for (const char byte : bytes) {
    take(choice.feed(static_cast<unsigned char>(byte), {}));
    if (choice.stopped()) break;
  }
  take(choice.finish());
  return {text, offsets};
}

TEST(ChoiceText, ShowsWholeCharactersAndTheirTokens) {
  const auto tokenizer = make_byte_tokenizer();
  ChoiceText choice(*tokenizer, {});
  EXPECT_EQ(choice.feed('a', {}).text, "a");
  EXPECT_EQ(choice.feed(0xc3, {}).text, "");
  const TextPiece piece = choice.feed(0xa4, {});
  EXPECT_EQ(piece.text, "\xc3\xa4");
  EXPECT_EQ(piece.tokens.size(), 2u);
  EXPECT_EQ(piece.tokens[1].offset, 1);
  EXPECT_EQ(choice.feed('b', {}).tokens[0].offset, 2);
}

TEST(ChoiceText, WhatAStopStringCutsIsNotShown) {
  const auto tokenizer = make_byte_tokenizer();
  ChoiceText choice(*tokenizer, {"cd"});
  const auto [text, offsets] = run(choice, "abcdef");
  EXPECT_EQ(text, "ab");
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(choice.stopped());
}

TEST(ChoiceText, HeldTokensComeAtTheEnd) {
  const auto tokenizer = make_byte_tokenizer();
  ChoiceText choice(*tokenizer, {"cd"});
  choice.skip(10);
  const auto [text, offsets] = run(choice, "abc\xe2\x82");
  EXPECT_EQ(text, "abc\xe2\x82");
  EXPECT_EQ(offsets, (std::vector<int64_t>{10, 11, 12, 13, 13}));
}

TEST(TokenNames, AreTextOrBytes) {
  const auto tokenizer = make_byte_tokenizer();
  const TokenNames names(*tokenizer);
  EXPECT_EQ(names('x'), "x");
  EXPECT_EQ(names(0xff), "bytes:\\xff");
  EXPECT_EQ(names(99999), "token:99999");
  EXPECT_EQ(printable("\xc3\xa4"), "\xc3\xa4");
}

TEST(Histogram, CountsUpToEachBound) {
  Histogram histogram({0.1, 1});
  for (const double value : {0.05, 0.1, 0.5, 7.0}) histogram.add(value);
  const std::string text = histogram.text("x", "help");
  for (const char* line : {"x_bucket{le=\"0.1\"} 2\n", "x_bucket{le=\"1\"} 3\n",
                           "x_bucket{le=\"+Inf\"} 4\n", "x_sum 7.65\n", "x_count 4\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

}  // namespace
}  // namespace dp::serve
