#include "text/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "text/bpe_file.h"
#include "text/test_tokenizer_files.h"

namespace dp {
namespace {

using nlohmann::json;
using Tokens = std::vector<int32_t>;
using Words = std::vector<std::string>;

std::unique_ptr<Tokenizer> bpe(const json& file) {
  return parse_bpe_tokenizer(file.dump(), "f.json");
}

// h e -> 256, l l -> 257, he ll -> 258, hell o -> 259, _w -> 260, _w o -> 261
json hello_json() {
  return test::bpe_json(
      {{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {" ", "w"}, {" w", "o"}});
}

TEST(BpeTokenizer, MergesByHand) {
  const auto tokenizer = bpe(hello_json());
  EXPECT_EQ(tokenizer->vocab_size(), 262);
  EXPECT_EQ(tokenizer->kind(), "byte-level BPE");
  EXPECT_EQ(tokenizer->file_name(), "tokenizer.json");
  EXPECT_EQ(tokenizer->file_content(), hello_json().dump());
  EXPECT_EQ(tokenizer->encode("hello world"), (Tokens{259, 261, 'r', 'l', 'd'}));
  EXPECT_EQ(tokenizer->encode("hell"), (Tokens{258}));
  EXPECT_EQ(tokenizer->encode("hel"), (Tokens{256, 'l'}));
  EXPECT_EQ(tokenizer->encode("lll"), (Tokens{257, 'l'})) << "the leftmost pair first";
  EXPECT_EQ(tokenizer->encode("  w"), (Tokens{' ', 260})) << "one space goes with the word";
  EXPECT_EQ(tokenizer->encode("\xc3\xa9"), (Tokens{0xc3, 0xa9}));
  EXPECT_EQ(tokenizer->encode(""), Tokens{});
  EXPECT_EQ(tokenizer->decode(Tokens{259, 261, 'r', 'l', 'd'}), "hello world");
  EXPECT_EQ(tokenizer->bos(), std::nullopt);
  EXPECT_EQ(tokenizer->eos(), std::nullopt);
  EXPECT_THROW(tokenizer->decode(Tokens{262}), std::out_of_range);
  EXPECT_THROW(tokenizer->decode(Tokens{-1}), std::out_of_range);
}

TEST(BpeTokenizer, MergesMayBePairs) {
  json file = hello_json();
  for (json& merge : file["model"]["merges"]) {
    const std::string text = merge;
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  EXPECT_EQ(bpe(file)->encode("hello world"), (Tokens{259, 261, 'r', 'l', 'd'}));
}

// "abc" is a token, but its bytes become a and bc: b c comes first.
TEST(BpeTokenizer, WordsThatAreTokensAreMergedUnlessTheFileSaysNotTo) {
  json file = test::bpe_json({{"b", "c"}, {"a", "b"}, {"ab", "c"}});
  EXPECT_EQ(bpe(file)->encode("abc"), (Tokens{'a', 256}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(bpe(file)->encode("abc"), (Tokens{258}));
  EXPECT_EQ(bpe(file)->encode("abcb"), (Tokens{'a', 256, 'b'}));
}

Words split_words(const json& file, std::string_view text) {
  const BpeFile parsed = parse_bpe_file(file.dump(), "f.json");
  Words words;
  const auto take = [&](std::string_view word, bool) { words.emplace_back(word); };
  if (parsed.last_split)
    parsed.last_split->split(text, take);
  else
    parsed.splits.at(0).pattern.split(text, take);
  return words;
}

TEST(BpeTokenizer, CutsWordsLikeGpt2) {
  const auto words = [](std::string_view text) { return split_words(test::bpe_json({}), text); };
  EXPECT_EQ(words("I'm sure they've said we'll"),
            (Words{"I", "'m", " sure", " they", "'ve", " said", " we", "'ll"}));
  EXPECT_EQ(words("'S"), (Words{"'", "S"})) << "only small letters";
  EXPECT_EQ(words("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(words("a  \n b"), (Words{"a", "  \n", " b"}));
  EXPECT_EQ(words("end   "), (Words{"end", "   "}));
  EXPECT_EQ(words("x\n\ny"), (Words{"x", "\n", "\n", "y"}));
  EXPECT_EQ(words("room 101, 3rd"), (Words{"room", " 101", ",", " 3", "rd"}));
  EXPECT_EQ(words("a-b...c"), (Words{"a", "-", "b", "...", "c"}));
  EXPECT_EQ(words("na\xc3\xafve \xd0\xbc\xd0\xb8\xd1\x80 \xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97"),
            (Words{"na\xc3\xafve", " \xd0\xbc\xd0\xb8\xd1\x80",
                   " \xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97"}));
  EXPECT_EQ(words("\xc2\xbd\xd9\xa3"), (Words{"\xc2\xbd\xd9\xa3"})) << "a half and an Arabic three";
  EXPECT_EQ(words("hi \xf0\x9f\x98\x80\xf0\x9f\x91\x8d!"),
            (Words{"hi", " \xf0\x9f\x98\x80\xf0\x9f\x91\x8d!"}));
  EXPECT_EQ(words("a\xc2\xa0\xc2\xa0"
                  "b"),
            (Words{"a", "\xc2\xa0", "\xc2\xa0", "b"}))
      << "spaces that do not break are spaces, but do not go with words";
}

TEST(BpeTokenizer, CutsWordsLikeLlama3) {
  json file = test::bpe_json({});
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern",
          {{"Regex",
            R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"},
         {"add_prefix_space", false},
         {"trim_offsets", true},
         {"use_regex", false}}}}};
  const auto words = [&](std::string_view text) { return split_words(file, text); };
  EXPECT_EQ(words("I'M 12345 x"), (Words{"I", "'M", " ", "123", "45", " x"}));
  EXPECT_EQ(words("a\n\n  b;\n\nc"), (Words{"a", "\n\n", " ", " b", ";\n\n", "c"}));
  const auto tokenizer = bpe(file);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\n\n  b;\n\nc 12345")), "a\n\n  b;\n\nc 12345");
}

// Digits apart, and pieces that a pattern removes, or all but which it removes.
TEST(BpeTokenizer, OtherSplits) {
  json file = test::bpe_json({{"1", "2"}, {"a", "b"}});
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Digits"}, {"individual_digits", true}},
                             {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
  EXPECT_EQ(bpe(file)->encode("ab12"), (Tokens{257, '1', '2'}));
  file["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = false;
  EXPECT_EQ(bpe(file)->encode("ab12"), (Tokens{257, 256}));
  json& split = file["pre_tokenizer"]["pretokenizers"][0];
  split = {{"type", "Split"},
           {"pattern", {{"String", "."}}},
           {"behavior", "Removed"},
           {"invert", false}};
  EXPECT_EQ(bpe(file)->encode("a.b.ab"), (Tokens{'a', 'b', 257})) << "a dot is a dot";
  split["pattern"] = {{"Regex", "[a-z]+"}};
  split["invert"] = true;
  EXPECT_EQ(bpe(file)->encode("ab12ab"), (Tokens{257, 257}));
  split["pattern"] = {{"Regex", "(?=b)"}};
  split["behavior"] = "Isolated";
  EXPECT_EQ(bpe(file)->encode("abab"), (Tokens{'a', 'b', 'a', 'b'})) << "empty matches cut";
}

TEST(BpeTokenizer, PrefixSpaces) {
  json file = hello_json();
  file["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(bpe(file)->encode("wo"), (Tokens{261}));
  EXPECT_EQ(bpe(file)->encode(" wo"), (Tokens{261}));
}

TEST(BpeTokenizer, NormalFormC) {
  json file = test::bpe_json({{"\xc3", "\xa9"}});
  EXPECT_EQ(bpe(file)->encode("e\xcc\x81"), (Tokens{'e', 0xcc, 0x81}));
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(bpe(file)->encode("e\xcc\x81"), (Tokens{256}));
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  EXPECT_EQ(bpe(file)->encode("e\xcc\x81"), (Tokens{256}));
  file["normalizer"]["normalizers"] = json::array();
  EXPECT_EQ(bpe(file)->encode("e\xcc\x81"), (Tokens{'e', 0xcc, 0x81}));
}

TEST(BpeTokenizer, SpecialTokensOnlyWhereTheyAreWanted) {
  json file = hello_json();
  file["added_tokens"] = {
      test::added_token(262, "<|endoftext|>", true), test::added_token(263, "<|endoftext|>x", true),
      test::added_token(264, "    ", false), test::added_token(270, "<\xef\xbd\x9c>", true)};
  const auto tokenizer = bpe(file);
  EXPECT_EQ(tokenizer->vocab_size(), 271);
  EXPECT_EQ(tokenizer->eos(), 262);
  EXPECT_EQ(tokenizer->encode_with_special("hello<|endoftext|> wo"), (Tokens{259, 262, 261}));
  EXPECT_EQ(tokenizer->encode_with_special("<|endoftext|>xy"), (Tokens{263, 'y'})) << "the longest";
  EXPECT_EQ(tokenizer->encode_with_special("<\xef\xbd\x9c>"), (Tokens{270}));
  const Tokens plain = tokenizer->encode("<|endoftext|>");
  EXPECT_EQ(plain, (Tokens{'<', '|', 'e', 'n', 'd', 'o', 'f', 't', 'e', 'x', 't', '|', '>'}));
  EXPECT_EQ(tokenizer->encode("a    b"), (Tokens{'a', 264, 'b'})) << "added, but not special";
  EXPECT_EQ(tokenizer->decode(Tokens{262, 264, 270, 265}), "<|endoftext|>    <\xef\xbd\x9c>")
      << "265 is nobody's";
  EXPECT_TRUE(tokenizer->is_special(262));
  EXPECT_FALSE(tokenizer->is_special(264));
  EXPECT_FALSE(tokenizer->is_special('a'));
}

TEST(BpeTokenizer, WhatThePostProcessorAddsBeginsAndEndsTexts) {
  json file = hello_json();
  file["added_tokens"] = {test::added_token(262, "[B]", true), test::added_token(263, "[E]", true)};
  const auto special = [](const char* name) {
    return json{{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
  };
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}},
        {{"type", "TemplateProcessing"}, {"single", {special("[B]"), text}}}}}};
  EXPECT_EQ(bpe(file)->bos(), 262);
  EXPECT_EQ(bpe(file)->eos(), std::nullopt);
  file["post_processor"]["processors"][1]["single"].push_back(special("[E]"));
  EXPECT_EQ(bpe(file)->eos(), 263);
  EXPECT_EQ(bpe(file)->encode("hello"), (Tokens{259})) << "nothing is added";
}

// Random merges over few letters, words merged by a loop that nobody could call fast.
TEST(BpeTokenizer, DoesWhatANaiveImplementationDoes) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> tokens = {"a", "b", "c", " ", "\xc3", "\xa9"};
    std::vector<std::pair<std::string, std::string>> merges;
    while (merges.size() < 30) {
      const std::string left = tokens[random() % tokens.size()],
                        right = tokens[random() % tokens.size()];
      if (std::ranges::find(tokens, left + right) != tokens.end() ||
          left.size() + right.size() > 12)
        continue;
      merges.emplace_back(left, right);
      tokens.push_back(left + right);
    }
    const json file = test::bpe_json(merges);
    const auto tokenizer = bpe(file);
    std::string text;
    for (int i = 0; i < 300; ++i)
      text += (const char*[]){"a", "b", "c", " ", "\xc3\xa9"}[random() % 5];
    std::string joined;
    for (const std::string& word : split_words(file, text)) {
      Words parts;
      for (const char c : word) parts.emplace_back(1, c);
      for (bool again = true; again;) {
        again = false;
        for (const auto& [left, right] : merges) {
          for (size_t i = 0; i + 1 < parts.size(); ++i)
            if (parts[i] == left && parts[i + 1] == right) {
              parts[i] += right;
              parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
              again = true;
              break;
            }
          if (again) break;
        }
      }
      for (const std::string& part : parts) joined += part + "|";
    }
    std::string got;
    for (const int32_t token : tokenizer->encode(text)) got += tokenizer->decode({&token, 1}) + "|";
    ASSERT_EQ(got, joined) << "round " << round;
  }
}

TEST(BpeTokenizer, AnyBytesComeBack) {
  json file = hello_json();
  file["added_tokens"] = {test::added_token(262, "<|endoftext|>", true),
                          test::added_token(263, "  ", false)};
  const auto tokenizer = bpe(file);
  test::for_texts([&](const std::string& text) {
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode_with_special(text)), text);
  });
}

// Quadratic time would be hours, which ctest does not grant.
TEST(BpeTokenizer, LongTextsTakeNoQuadraticTime) {
  const auto tokenizer = bpe(test::bpe_json({{"a", "a"}, {"aa", "aa"}, {" ", " "}, {"\n", "\n"}}));
  for (const char* unit : {"a", " ", "\n", "\xff", "'", "\xc3\xa9", " a", "1"}) {
    std::string text;
    while (text.size() < 1 << 20) text += unit;
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(BpeTokenizer, ExpressionsThatExplodeGiveUp) {
  json file = test::bpe_json({});
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "(x+x+)+y"}}}, {"behavior", "Isolated"}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
  const auto tokenizer = bpe(file);
  EXPECT_EQ(tokenizer->encode("xxy").size(), 3u);
  try {
    tokenizer->encode(std::string(60, 'x') + " y");
    FAIL() << "took it";
  } catch (const InputError& error) {
    EXPECT_NE(
        std::string(error.what()).find("f.json: pre_tokenizer.pretokenizers[0].pattern.Regex"),
        std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("gives up"), std::string::npos) << error.what();
  }
}

TEST(BpeTokenizer, ManyThreads) {
  const auto tokenizer = bpe(hello_json());
  std::mt19937 random(5);
  const std::string text = test::random_unicode(random, 20000);
  const Tokens tokens = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::atomic<int> same = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round)
        same += tokenizer->encode(text) == tokens && tokenizer->decode(tokens) == text;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 20);
}

}  // namespace
}  // namespace dp
