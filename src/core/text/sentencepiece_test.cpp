// Our reading of SentencePiece models against the library itself, which cannot be linked together with libtorch.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>
#include <unordered_map>

#include "base/error.h"
#include "base/test_input_error.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/test_tokenizer_files.h"
#include "text/train_sentencepiece.h"

namespace dp {
namespace {

using Tokens = std::vector<int32_t>;
using Options = std::unordered_map<std::string, std::string>;

// Text that has everything in it that matters: a README's worth, with other scripts and odd spaces.
const std::string& training_text() {
  static const std::string text = [] {
    std::ifstream file(DP_TEST_DATA "/../../README.md");
    std::stringstream content;
    content << file.rdbuf();
    return content.str() +
           "\nna\xc3\xafve caf\xc3\xa9 d\xc3\xa9j\xc3\xa0 vu\n\xd0\xbc\xd0\xb8\xd1\x80 "
           "\xd1\x82\xd1\x80\xd1\x83\xd0\xb4\n"
           "\xe4\xb8\xad\xe6\x96\x87 \xe6\x97\xa5\xe6\x9c\xac\n  two  spaces   three\n\xef\xac\x81 "
           "\xe2\x91\xa0 \xef\xbc\xa1\n";
  }();
  return text;
}

std::string train_with_library(Options options) {
  class Lines final : public sentencepiece::SentenceIterator {
   public:
    Lines() { Next(); }
    bool done() const override { return done_; }
    void Next() override { done_ = !std::getline(text_, line_); }
    const std::string& value() const override { return line_; }
    decltype(std::declval<const SentenceIterator&>().status()) status() const override {
      return {};
    }

   private:
    std::istringstream text_{training_text()};
    std::string line_;
    bool done_ = false;
  };
  Lines lines;
  std::string model;
  options.emplace("minloglevel", "3");
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &lines, &model);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return model;
}

std::string train_ours(const SentencePieceTraining& options) {
  SentencePieceTrainer trainer(options);
  trainer.add(training_text());
  return trainer.finish();
}

std::string list(const Tokens& tokens) {
  std::string text;
  for (const int32_t token : tokens) text += std::to_string(token) + " ";
  return text;
}

Tokens sorted(Tokens tokens) {
  std::ranges::sort(tokens);
  return tokens;
}

void expect_same_tokens(const std::string& model, bool unigram) {
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
  const auto tokenizer = parse_sentencepiece_tokenizer(model, "m.model");
  ASSERT_EQ(tokenizer->vocab_size(), library.GetPieceSize());
  EXPECT_EQ(tokenizer->bos().value_or(-1), library.bos_id());
  EXPECT_EQ(tokenizer->eos().value_or(-1), library.eos_id());
  const auto compare = [&](const std::string& text) {
    const Tokens want = library.EncodeAsIds(text), got = tokenizer->encode(text);
    ASSERT_EQ(tokenizer->decode(got), library.DecodeIds(want)) << text;
    // A unigram model finds "--" "-" as likely as "-" "--", and versions of the library choose differently.
    if (unigram)
      ASSERT_EQ(list(sorted(got)), list(sorted(want))) << text;
    else
      ASSERT_EQ(list(got), list(want)) << text;
  };
  std::istringstream lines(training_text());
  for (std::string line; std::getline(lines, line);) compare(line);
  compare(training_text());
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string text = test::random_unicode(random, random() % 60);
    for (size_t at; (at = text.find("\xe2\x96\x81")) != std::string::npos;)
      text.replace(at, 3, " ");
    compare(text);
  }
}

TEST(SentencePiece, EncodesAsTheLibraryDoes) {
  const Options bytes = {{"byte_fallback", "true"}};
  const Options plain = {{"normalization_rule_name", "identity"},
                         {"remove_extra_whitespaces", "false"},
                         {"byte_fallback", "true"}};  // as Llama's
  const Options variants[] = {
      {},
      bytes,
      plain,
      {{"add_dummy_prefix", "false"}},
      {{"split_by_whitespace", "false"}},
      {{"treat_whitespace_as_suffix", "true"}},
      {{"user_defined_symbols", "he,\xe4\xb8\xad\xe6\x96\x87,<x>"}},
      {{"normalization_rule_name", "nmt_nfkc_cf"}, {"bos_piece", "[B]"}, {"eos_id", "-1"}}};
  for (const char* type : {"bpe", "unigram"})
    for (Options options : variants) {
      std::string name = type;
      for (const auto& [key, value] : options) name += " " + key + "=" + value;
      SCOPED_TRACE(name);
      options["model_type"] = type;
      options["vocab_size"] = options.contains("byte_fallback") ? "700" : "450";
      expect_same_tokens(train_with_library(options), options["model_type"] == "unigram");
    }
}

TEST(SentencePiece, AnyBytesComeBackFromModelsTrainedHere) {
  for (const char* type : {"bpe", "unigram"}) {
    SCOPED_TRACE(type);
    const std::string model = train_ours({.vocab_size = 600, .type = type});
    expect_same_tokens(model, type == std::string("unigram"));
    const auto tokenizer = parse_sentencepiece_tokenizer(model, "m.model");
    EXPECT_EQ(tokenizer->vocab_size(), 600);
    EXPECT_EQ(tokenizer->kind(), "sentencepiece");
    EXPECT_EQ(tokenizer->file_name(), "tokenizer.model");
    EXPECT_EQ(tokenizer->file_content(), model);
    test::for_texts([&](const std::string& text) {
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
      ASSERT_EQ(tokenizer->decode(tokenizer->encode_with_special(text)), text);
      std::string streamed;
      TextStream stream(*tokenizer);
      for (const int32_t token : tokenizer->encode(text)) streamed += stream.feed(token);
      ASSERT_EQ(streamed + stream.finish(), text);
    });
    const auto tokens = tokenizer->encode(training_text());
    EXPECT_LT(tokens.size() * 3, training_text().size() * 2) << "it has learnt something";
  }
}

TEST(SentencePiece, TheSameTextGivesTheSameModel) {
  for (const char* type : {"bpe", "unigram"})
    EXPECT_EQ(train_ours({.vocab_size = 500, .type = type}),
              train_ours({.vocab_size = 500, .type = type}))
        << type;
}

TEST(SentencePiece, SpecialTokensOnlyWhereTheyAreWanted) {
  const auto tokenizer = parse_sentencepiece_tokenizer(train_ours({.vocab_size = 500}), "m.model");
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_FALSE(tokenizer->is_special(0)) << "unknown";
  EXPECT_FALSE(tokenizer->is_special(300));
  const Tokens plain = tokenizer->encode("<s>a</s>"),
               special = tokenizer->encode_with_special("<s>a</s>");
  EXPECT_EQ(std::ranges::count(plain, 1), 0);
  ASSERT_EQ(special.size(), 3u);
  EXPECT_EQ(special.front(), 1);
  EXPECT_EQ(special.back(), 2);
  EXPECT_EQ(tokenizer->decode(special), "<s>a</s>");
  EXPECT_THROW(tokenizer->decode(Tokens{500}), std::out_of_range);
  EXPECT_THROW(tokenizer->decode(Tokens{-1}), std::out_of_range);
}

// The space that encoding puts before a text goes again, also behind a special token and piece by piece.
TEST(SentencePiece, DummyPrefixesDisappear) {
  const auto tokenizer =
      parse_sentencepiece_tokenizer(train_with_library({{"vocab_size", "700"},
                                                        {"byte_fallback", "true"},
                                                        {"model_type", "bpe"},
                                                        {"normalization_rule_name", "identity"},
                                                        {"remove_extra_whitespaces", "false"}}),
                                    "m.model");
  for (const std::string text :
       {"the state", "  the state", "a", "\xff the", "\xf0\x9f\x98\x80 x"}) {
    Tokens tokens = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(tokens), text) << "also bytes that are not UTF-8";
    tokens.insert(tokens.begin(), 1);
    tokens.push_back(2);
    EXPECT_EQ(tokenizer->decode(tokens), "<s>" + text + "</s>");
    TextStream stream(*tokenizer);
    std::string streamed;
    for (const int32_t token : tokens) streamed += stream.feed(token);
    EXPECT_EQ(streamed + stream.finish(), "<s>" + text + "</s>");
  }
}

// Quadratic time would be hours, which ctest does not grant.
TEST(SentencePiece, LongTextsTakeNoQuadraticTime) {
  for (const char* type : {"bpe", "unigram"}) {
    const auto tokenizer =
        parse_sentencepiece_tokenizer(train_ours({.vocab_size = 500, .type = type}), "m.model");
    for (const char* unit : {"a", " ", "\n", "\xff", "\xc3\xa9", "the "}) {
      std::string text;
      while (text.size() < 1 << 20) text += unit;
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    }
  }
}

TEST(SentencePiece, ManyThreads) {
  const auto tokenizer = parse_sentencepiece_tokenizer(train_ours({.vocab_size = 500}), "m.model");
  const Tokens tokens = tokenizer->encode(training_text());
  std::vector<std::thread> threads;
  std::atomic<int> same = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) same += tokenizer->encode(training_text()) == tokens;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 20);
}

TEST(SentencePiece, TrainingRefusesWithASentence) {
  const auto reason = [](SentencePieceTraining options, const std::string& text) -> std::string {
    return input_error([&] {
      SentencePieceTrainer trainer(options);
      trainer.add(text);
      trainer.finish();
    });
  };
  EXPECT_NE(reason({.vocab_size = 100}, training_text()).find("expected 260 to"),
            std::string::npos);
  EXPECT_NE(reason({.type = "word"}, training_text()).find("expected bpe or unigram"),
            std::string::npos);
  EXPECT_NE(reason({.vocab_size = 270}, training_text())
                .find("cannot train a tokenizer of 270 pieces: vocabulary size"),
            std::string::npos)
      << reason({.vocab_size = 270}, training_text());
  EXPECT_NE(reason({.vocab_size = 50000}, training_text()).find("vocabulary size too high"),
            std::string::npos)
      << reason({.vocab_size = 50000}, training_text());
  EXPECT_NE(reason({}, "").find("cannot train a tokenizer of 8000 pieces: "), std::string::npos)
      << reason({}, "");
  EXPECT_NE(reason({}, "\xff\xfe").find("cannot train a tokenizer of 8000 pieces: "),
            std::string::npos);
}

TEST(SentencePiece, DamagedModelsAreRefused) {
  const std::string model = train_ours({.vocab_size = 500});
  for (size_t size = 0; size < model.size(); size += 1 + size / 50)
    EXPECT_THROW(parse_sentencepiece_tokenizer(model.substr(0, size), "m.model"), InputError)
        << size;
  std::mt19937 random(9);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = model;
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      const auto tokenizer = parse_sentencepiece_tokenizer(damaged, "m.model");
      tokenizer->decode(tokenizer->encode("Some text  \xff \xe2\x96\x81 caf\xc3\xa9"));
    } catch (const InputError& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("m.model: ")) << error.what();
    }
  }
}

}  // namespace
}  // namespace dp
