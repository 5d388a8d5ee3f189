#include "text/prepare_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_input_error.h"
#include "text/encode_text.h"
#include "text/test_tokenizer.h"
#include "text/token_shards.h"

namespace dp {
namespace {

namespace fs = std::filesystem;

bool go_on(const PrepareReport&) { return true; }

// Sentences of a few words, `count` documents of them.
std::vector<std::string> some_documents(int count, int seed = 1) {
  std::mt19937 random(static_cast<unsigned>(seed));
  const char* words[] = {"the", "thin", "path", "leads", "north", "é", "of", "\n"};
  std::vector<std::string> documents;
  for (int i = 0; i < count; ++i) {
    std::string text = std::to_string(i);
    for (unsigned left = random() % 60; left > 0; --left)
      text += std::string(" ") + words[random() % 8];
    documents.push_back(text);
  }
  return documents;
}

std::string as_jsonl(const std::vector<std::string>& documents) {
  std::string lines;
  for (std::string text : documents) {
    for (size_t at = 0; (at = text.find('\n', at)) != text.npos; at += 2)
      text.replace(at, 1, "\\n");
    lines += "{\"text\": \"" + text + "\"}\n";
  }
  return lines;
}

std::vector<std::string> decoded(const TokenDataset& data, const Tokenizer& tokenizer) {
  std::vector<std::string> documents;
  for (uint64_t i = 0; i < data.num_documents(); ++i) {
    const TokenRange range = data.document(i);
    std::vector<int64_t> tokens(range.end - range.begin);
    data.read(range.begin, tokens);
    EXPECT_EQ(tokens.back(), tokenizer.eos().value_or(tokens.back()));
    documents.push_back(tokenizer.decode(std::vector<int32_t>(tokens.begin(), tokens.end())));
  }
  return documents;
}

TEST(PrepareTokens, DocumentsComeBack) {
  const TestFolder folder;
  const auto documents = some_documents(50);
  const auto sources = find_text({folder.file("a.jsonl", as_jsonl(documents))}).files;
  int number = 0;
  for (const int64_t vocab_size : {300, 70'000}) {
    for (const bool has_eos : {true, false}) {
      for (const uint64_t shard_tokens : {1000u, 1u << 26}) {
        const TestTokenizer tokenizer(vocab_size, has_eos);
        const fs::path out = folder / std::to_string(number++);
        PrepareOptions options;
        options.shard_tokens = shard_tokens;
        const PrepareReport report = prepare_tokens(sources, tokenizer, options, out, go_on);
        EXPECT_TRUE(report.finished);
        EXPECT_EQ(report.documents, 50u);
        EXPECT_FALSE(fs::exists(out.string() + ".unfinished"));
        const TokenDataset data(out);
        data.verify();
        EXPECT_EQ(report.tokens, data.num_tokens());
        EXPECT_EQ(report.text_bytes, data.text_bytes());
        EXPECT_EQ(decoded(data, tokenizer), documents);
        EXPECT_EQ(folder.content(out.filename())["tokenizer.test"], tokenizer.file_content());
      }
    }
  }
}

TEST(PrepareTokens, SameBytesFromAnyNumberOfThreads) {
  const TestFolder folder;
  folder.file("in/a.jsonl", as_jsonl(some_documents(3000)));
  std::string text;
  for (const std::string& document : some_documents(5000, 2)) text += document;
  folder.file("in/b.txt", text);
  const auto sources = find_text({folder / "in"}).files;
  PrepareOptions options;
  options.shard_tokens = 100'000;
  options.validation = 0.2;
  options.text.piece_bytes = 5000;
  for (const int threads : {1, 2, 5}) {
    options.threads = threads;
    prepare_tokens(sources, TestTokenizer(), options, folder / std::to_string(threads), go_on);
  }
  const auto first = folder.content("1");
  EXPECT_GT(first.size(), 15u);
  EXPECT_EQ(folder.content("2"), first);
  EXPECT_EQ(folder.content("5"), first);
}

// Stopped after every unit that there is.
TEST(PrepareTokens, StoppedAndTakenUpAgain) {
  const TestFolder folder;
  folder.file("in/a.jsonl", as_jsonl(some_documents(9000)) + "broken\n");
  std::string text;
  for (const std::string& document : some_documents(9000, 2)) text += document + "\n\n";
  folder.file("in/b.txt", text + "\n\n" + std::string(100'000, 'x'));
  const auto sources = find_text({folder / "in"}).files;
  PrepareOptions options;
  options.shard_tokens = 150'000;
  options.validation = 0.3;
  options.threads = 2;
  options.text.separator = "";
  options.text.piece_bytes = 7000;
  options.journal_every = 0;
  prepare_tokens(sources, TestTokenizer(), options, folder / "whole", go_on);
  int processes = 1;
  PrepareReport report;
  for (;; ++processes) {
    report = prepare_tokens(sources, TestTokenizer(), options, folder / "parts",
                            [](const PrepareReport&) { return false; });
    if (report.finished) break;
    ASSERT_FALSE(fs::exists(folder / "parts"));
    ASSERT_LT(processes, 100);
    folder.file("parts.unfinished/train/shard-00077.tokens.tmp-x",
                "of a process killed while writing");
  }
  EXPECT_GT(processes, 5);
  EXPECT_EQ(report.broken, 1u);
  EXPECT_EQ(folder.content("parts"), folder.content("whole"));
}

TEST(PrepareTokens, ValidationIsChosenByContent) {
  const TestFolder folder;
  const auto documents = some_documents(4000);
  PrepareOptions options;
  options.validation = 0.1;
  const TestTokenizer tokenizer;
  prepare_tokens(find_text({folder.file("a.jsonl", as_jsonl(documents))}).files, tokenizer, options,
                 folder / "a", go_on);
  const std::vector<std::string> reversed(documents.rbegin(), documents.rend());
  prepare_tokens(find_text({folder.file("b.jsonl", as_jsonl(reversed))}).files, tokenizer, options,
                 folder / "b", go_on);
  auto train = decoded(TokenDataset(folder / "a/train"), tokenizer),
       validation = decoded(TokenDataset(folder / "a/validation"), tokenizer),
       other = decoded(TokenDataset(folder / "b/validation"), tokenizer);
  EXPECT_EQ(train.size() + validation.size(), 4000u);
  EXPECT_NEAR(static_cast<double>(validation.size()), 400, 5 * std::sqrt(400 * 0.9));
  std::ranges::reverse(other);
  EXPECT_EQ(validation, other) << "whatever the order";
  EXPECT_TRUE(is_validation("x", 1));
  EXPECT_FALSE(is_validation("x", 0));
}

TEST(PrepareTokens, BrokenLinesAreCounted) {
  const TestFolder folder;
  const std::string path = folder.file(
      "a.jsonl", "{\"text\": \"one\"}\n{\"text\": 1}\n\n{\"text\": \"\"}\nx\n{\"text\": \"two\"}");
  const auto sources = find_text({path}).files;
  const TestTokenizer tokenizer;
  PrepareOptions options;
  const PrepareReport report = prepare_tokens(sources, tokenizer, options, folder / "out", go_on);
  EXPECT_EQ(report.broken, 2u);
  ASSERT_EQ(report.first_broken.size(), 2u);
  EXPECT_EQ(report.first_broken[0],
            "'" + path + "' line 2 has a number as 'text', expected a string");
  EXPECT_TRUE(report.first_broken[1].starts_with("'" + path + "' line 5 is not valid JSON"));
  EXPECT_EQ(decoded(TokenDataset(folder / "out"), tokenizer),
            (std::vector<std::string>{"one", "two"}));

  options.strict = true;
  EXPECT_THROW(prepare_tokens(sources, tokenizer, options, folder / "strict", go_on), InputError);
  EXPECT_FALSE(fs::exists(folder / "strict"));
  EXPECT_FALSE(fs::exists(folder / "strict.unfinished"));
}

TEST(PrepareTokens, RefusesWhatDoesNotFit) {
  const TestFolder folder;
  const auto sources = find_text({folder.file("a.txt", std::string(1 << 20, 'a'))}).files;
  const TestTokenizer tokenizer;
  const auto refused = [&](const PrepareOptions& options, const std::vector<TextSource>& from,
                           const Tokenizer& with = TestTokenizer()) -> std::string {
    return input_error([&] { prepare_tokens(from, with, options, folder / "out", go_on); });
  };
  PrepareOptions options;
  prepare_tokens(sources, tokenizer, options, folder / "out/",
                 [](const PrepareReport&) { return false; });
  ASSERT_TRUE(fs::exists(folder / "out.unfinished/journal.json"));
  PrepareOptions other = options;
  other.shard_tokens = 5;
  EXPECT_NE(
      refused(other, sources).find("unfinished work with shard-tokens = 67108864, now it is 5"),
      std::string::npos);
  EXPECT_NE(refused(options, sources, TestTokenizer(400)).find(" tokenizer = "), std::string::npos);
  auto changed = sources;
  changed[0].modified += 1;
  EXPECT_NE(refused(options, changed).find(" sources = "), std::string::npos);
  prepare_tokens(sources, tokenizer, options, folder / "another", [&](const PrepareReport&) {
    EXPECT_EQ(refused(options, sources), "no error");
    try {
      prepare_tokens(sources, tokenizer, options, folder / "another", go_on);
      ADD_FAILURE() << "two at once";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("another process"), std::string::npos)
          << error.what();
    }
    return true;
  });
  EXPECT_NE(refused(options, sources).find("exists already"), std::string::npos);
  fs::remove_all(folder / "out");
  folder.file("out.unfinished/mine.txt", "precious");
  EXPECT_NE(refused(options, sources).find("is in the way"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder / "out.unfinished/mine.txt"));
  fs::remove_all(folder / "out.unfinished");
  EXPECT_EQ(refused(options, find_text({folder.file("empty.txt", "")}).files),
            "found no document in 1 file");
  EXPECT_FALSE(fs::exists(folder / "out.unfinished"));
}

}  // namespace
}  // namespace dp
