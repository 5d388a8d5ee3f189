#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "base/test_input_error.h"
#include "text/test_tokenizer_files.h"

namespace dp {
namespace {

using Tokens = std::vector<int32_t>;

std::string refusal(const std::string& path) {
  return input_error([&] { load_tokenizer(path); });
}

TEST(ByteTokenizer, BytesAreTokens) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(tokenizer->vocab_size(), 258);
  EXPECT_EQ(tokenizer->encode("a\xff"), (Tokens{'a', 255}));
  EXPECT_EQ(tokenizer->encode("<s>"), (Tokens{'<', 's', '>'}));
  EXPECT_EQ(tokenizer->encode_with_special("<s>a</s>"), (Tokens{256, 'a', 257}));
  EXPECT_EQ(tokenizer->decode(Tokens{256, 'a', 257}), "<s>a</s>");
  EXPECT_EQ(tokenizer->bos(), 256);
  EXPECT_EQ(tokenizer->eos(), 257);
  EXPECT_TRUE(tokenizer->is_special(256));
  EXPECT_FALSE(tokenizer->is_special(255));
  EXPECT_EQ(fingerprint(*tokenizer), "bytes");
  EXPECT_THROW(tokenizer->decode(Tokens{258}), std::out_of_range);
  EXPECT_THROW(tokenizer->decode(Tokens{-1}), std::out_of_range);
  test::for_texts([&](const std::string& text) {
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  });
}

TEST(TokenizerFiles, AreToldApartByTheirContent) {
  const TestFolder folder;
  EXPECT_EQ(load_tokenizer("bytes")->kind(), "bytes");
  const std::string json = test::bpe_json({{"a", "b"}}).dump(1);
  const auto tokenizer = load_tokenizer(folder.file("any.name", "\n " + json));
  EXPECT_EQ(tokenizer->kind(), "byte-level BPE");
  EXPECT_EQ(tokenizer->file_content(), "\n " + json);
  folder.file("tokenizer.json", json);
  EXPECT_EQ(load_tokenizer((folder / "").string())->encode("ab"), Tokens{256});
}

TEST(TokenizerFiles, AreRefusedByName) {
  const TestFolder folder;
  EXPECT_NE(refusal((folder / "no").string()).find("no' does not exist"), std::string::npos);
  EXPECT_NE(
      refusal((folder / "").string()).find("has neither a tokenizer.json nor a tokenizer.model"),
      std::string::npos);
  EXPECT_NE(refusal(folder.file("empty", "")).find("empty: the file is empty"), std::string::npos);
  EXPECT_NE(refusal(folder.file("text", "Once upon a time"))
                .find("text: neither a tokenizer.json nor a SentencePiece"),
            std::string::npos);
  EXPECT_NE(refusal(folder.file("config.json", "{\"a\": 1}")).find("config.json: model is missing"),
            std::string::npos);
  EXPECT_NE(refusal(folder.file("cut.json", "{\"model\": {"))
                .find("cut.json: the file is not valid JSON"),
            std::string::npos);
}

TEST(Fingerprint, DiffersWithTheFile) {
  const TestFolder folder;
  const auto print = [&](const nlohmann::json& file, const std::string& end = "") {
    return fingerprint(*load_tokenizer(folder.file("f", file.dump() + end)));
  };
  EXPECT_EQ(print(test::bpe_json({})), print(test::bpe_json({})));
  EXPECT_NE(print(test::bpe_json({})), print(test::bpe_json({}), "\n"));
  EXPECT_NE(print(test::bpe_json({{"a", "b"}})), print(test::bpe_json({{"b", "a"}})));
}

std::vector<std::string> streamed(const Tokenizer& tokenizer, const Tokens& tokens) {
  TextStream stream(tokenizer);
  std::vector<std::string> texts;
  for (const int32_t token : tokens) texts.push_back(stream.feed(token));
  texts.push_back(stream.finish());
  return texts;
}

TEST(TextStream, GivesWholeCharacters) {
  const auto tokenizer = make_byte_tokenizer();
  using Texts = std::vector<std::string>;
  EXPECT_EQ(streamed(*tokenizer, {'a', 0xc3, 0xa9, 'b'}), (Texts{"a", "", "\xc3\xa9", "b", ""}));
  EXPECT_EQ(streamed(*tokenizer, {0xf0, 0x9f, 0x98, 0x80}),
            (Texts{"", "", "", "\xf0\x9f\x98\x80", ""}));
  EXPECT_EQ(streamed(*tokenizer, {0xf0, 0x9f}), (Texts{"", "", "\xf0\x9f"})) << "what is left";
  EXPECT_EQ(streamed(*tokenizer, {0xff, 'a'}), (Texts{"\xff", "a", ""}))
      << "never becomes a character";
  EXPECT_EQ(streamed(*tokenizer, {0xe2, 'a'}), (Texts{"",
                                                      "\xe2"
                                                      "a",
                                                      ""}))
      << "certain at the next byte";
  EXPECT_EQ(streamed(*tokenizer, {0xe2, 257}), (Texts{"", "\xe2</s>", ""}));
}

TEST(TextStream, AddsUpToTheWholeText) {
  const auto tokenizer = make_byte_tokenizer();
  test::for_texts([&](const std::string& text) {
    std::string all;
    for (const std::string& part : streamed(*tokenizer, tokenizer->encode(text))) all += part;
    ASSERT_EQ(all, text);
  });
}

}  // namespace
}  // namespace dp
