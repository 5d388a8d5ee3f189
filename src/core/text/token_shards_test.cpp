#include "text/token_shards.h"
#include <algorithm>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_input_error.h"
#include "base/hash.h"
#include "base/test_folder.h"
#include "text/shard_writer.h"
#include "text/test_tokenizer.h"

namespace dp {
namespace {

namespace fs = std::filesystem;
using TokenIds = std::vector<int64_t>;

std::string packed(const TokenIds& tokens, size_t width) {
  std::string bytes;
  for (const int64_t token : tokens) bytes.append(reinterpret_cast<const char*>(&token), width);
  return bytes;
}

// Documents 1 2 0 | 3 0 | 4 5 6 0, with shards that end after `cuts` tokens.
void write_dataset(const fs::path& directory, const std::vector<size_t>& cuts,
                   int64_t vocab_size = 300) {
  fs::create_directories(directory);
  TokenManifest manifest = make_manifest(TestTokenizer(vocab_size));
  const size_t width = manifest.token_bytes();
  ShardWriter writer(directory, width);
  const TokenIds tokens = {1, 2, 0, 3, 0, 4, 5, 6, 0};
  for (size_t i = 0; i < tokens.size(); ++i) {
    writer.append(packed({tokens[i]}, width), 10);
    if (tokens[i] == 0) writer.end_document();
    if (std::ranges::count(cuts, i + 1)) writer.end_shard();
  }
  writer.end_shard();
  manifest.shards = writer.state().finished;
  std::ofstream(directory / kManifestFile) << to_json(manifest);
}

TokenIds read(const TokenDataset& data, uint64_t begin, uint64_t end) {
  TokenIds tokens(end - begin);
  data.read(begin, tokens);
  return tokens;
}

std::string refused(const fs::path& directory, bool verify = false) {
  return input_error([&] {
    const TokenDataset data(directory);
    if (verify) data.verify();
  });
}

TEST(TokenShards, ShardsAreOneStream) {
  const TestFolder folder;
  int number = 0;
  for (const std::vector<size_t>& cuts :
       std::vector<std::vector<size_t>>{{}, {3}, {1, 2, 3}, {4, 8}, {1, 2, 3, 4, 5, 6, 7, 8}}) {
    for (const int64_t vocab_size : {300, 65'536, 65'537}) {
      const fs::path directory = folder / std::to_string(number++);
      write_dataset(directory, cuts, vocab_size);
      const TokenDataset data(directory);
      EXPECT_EQ(data.manifest().shards.size(), cuts.size() + 1);
      EXPECT_EQ(fs::file_size(tokens_file(directory, 0)),
                data.manifest().shards[0].tokens * (vocab_size <= 65'536 ? 2 : 4));
      EXPECT_EQ(data.num_tokens(), 9u);
      EXPECT_EQ(data.num_documents(), 3u);
      EXPECT_EQ(data.text_bytes(), 90u);
      const TokenIds all = {1, 2, 0, 3, 0, 4, 5, 6, 0};
      const std::vector<uint64_t> ends = {3, 5, 9};
      for (uint64_t begin = 0; begin <= 9; ++begin) {
        for (uint64_t end = begin; end <= 9; ++end) {
          EXPECT_EQ(read(data, begin, end), TokenIds(all.begin() + begin, all.begin() + end));
          std::vector<uint64_t> want;
          for (const uint64_t e : ends)
            if (e > begin && e <= end) want.push_back(e);
          EXPECT_EQ(data.document_ends(begin, end), want);
        }
      }
      EXPECT_EQ(data.document(0), (TokenRange{0, 3}));
      EXPECT_EQ(data.document(1), (TokenRange{3, 5}));
      EXPECT_EQ(data.document(2), (TokenRange{5, 9}));
      EXPECT_THROW(data.document(3), std::out_of_range);
      EXPECT_THROW(read(data, 8, 10), std::out_of_range);
      EXPECT_THROW(read(data, 10, 10), std::out_of_range);
      data.verify();
    }
  }
}

TEST(TokenShards, ManifestsSurviveWritingAndReading) {
  TokenManifest manifest = make_manifest(TestTokenizer());
  EXPECT_EQ(parse_manifest(to_json(manifest), "f"), manifest);
  manifest.eos.reset();
  manifest.vocab_size = 100'000;
  manifest.shards = {{5, 2, 20, 1, ~uint64_t{0}}, {1, 0, 0, 0, 7}};
  EXPECT_EQ(parse_manifest(to_json(manifest), "f"), manifest);
}

TEST(TokenShards, RefusesBadManifests) {
  TokenManifest manifest = make_manifest(TestTokenizer());
  manifest.shards = {{5, 2, 20, 1, 2}};
  const std::string good = to_json(manifest);
  const auto with = [&](const std::string& from, const std::string& to) -> std::string {
    std::string text = good;
    EXPECT_NE(text.find(from), text.npos) << from;
    text.replace(text.find(from), from.size(), to);
    return input_error([&] { parse_manifest(text, "f"); });
  };
  EXPECT_NE(with("{", "[").find("is not valid JSON"), good.npos);
  EXPECT_NE(with("deltaproduct tokens", "zarr").find("'f': format must be \"deltaproduct tokens\""),
            good.npos);
  EXPECT_EQ(with("\"version\": 1", "\"version\": 2"),
            "'f': version must be a number from 1 to 1, got '2'");
  EXPECT_EQ(with("\"tokens\": 5", "\"tokens\": 0").substr(0, 29), "'f': shards[0].tokens must be");
  EXPECT_EQ(with("\"tokens\": 5", "\"tokens\": -5").substr(0, 29), "'f': shards[0].tokens must be");
  EXPECT_EQ(with("\"tokens\": 5", "\"tokens\": 1e30").substr(0, 29),
            "'f': shards[0].tokens must be");
  EXPECT_EQ(with("\"documents\": 2", "\"documents\": 6"),
            "'f': shards[0].documents must be a number from 0 to 5, got '6'");
  EXPECT_EQ(with("\"documents\"", "\"docs\""), "'f': shards[0].documents is missing");
  EXPECT_EQ(with("0000000000000001", "1"),
            "'f': shards[0].tokens_xxh64 must be 16 hexadecimal digits, got '1'");
  EXPECT_EQ(with("\"file\": \"", "\"file\": \"../").substr(0, 48),
            "'f': tokenizer.file must be the name of a file b");
  EXPECT_EQ(with("\"vocab_size\": 300", "\"vocab_size\": 100000"),
            "'f': dtype must be uint32 for 100000 different tokens, got 'uint16'");
  EXPECT_EQ(with("\"eos\": 0", "\"eos\": 300"),
            "'f': tokenizer.eos must be a number from 0 to 299, got '300'");
}

TEST(TokenShards, RefusesFilesThatDoNotFit) {
  const TestFolder folder;
  const auto changed = [&](const std::string& file, const std::string& content,
                           bool verify = false) {
    fs::remove_all(folder / "d");
    write_dataset(folder / "d", {4});
    folder.file("d/" + file, content);
    return refused(folder / "d", verify);
  };
  const auto ends = [](std::vector<uint64_t> numbers) {
    return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 8);
  };
  const std::string path = (folder / "d").string();
  EXPECT_EQ(changed("x", ""), "no error");
  EXPECT_EQ(changed("shard-00000.tokens", "abc"),
            "'" + path + "/shard-00000.tokens' has 3 bytes, expected 8 for 4 tokens");
  EXPECT_EQ(changed("shard-00001.tokens", std::string(11, 'x')),
            "'" + path + "/shard-00001.tokens' has 11 bytes, expected 10 for 5 tokens");
  EXPECT_EQ(changed("shard-00001.documents", ""),
            "'" + path + "/shard-00001.documents' has 0 bytes, expected 16 for 2 documents");
  EXPECT_EQ(changed("shard-00001.documents", ends({1, 4})),
            "'" + path + "/shard-00001.documents' has no document that ends with the last token");
  EXPECT_EQ(changed("shard-00001.documents", ends({5, 5})),
            "'" + path + "/shard-00001.documents': document 1 ends at token 5, expected 6 to 5");
  EXPECT_EQ(changed("shard-00001.documents", ends({0, 5})),
            "'" + path + "/shard-00001.documents': document 0 ends at token 0, expected 1 to 5");
  EXPECT_EQ(changed("shard-00000.documents", ends({~uint64_t{0}})),
            "'" + path +
                "/shard-00000.documents': document 0 ends at token 18446744073709551615, expected "
                "1 to 4");

  EXPECT_NE(changed("shard-00001.documents", ends({2, 5})).find("documents' has the checksum"),
            path.npos);

  const std::string other = packed({1, 2, 0, 7}, 2), large = packed({1, 2, 0, 300}, 2);
  const std::string expected = "'" + path + "/shard-00000.tokens' has the checksum " +
                               to_hex(xxh64(other)) + ", expected " +
                               to_hex(xxh64(packed({1, 2, 0, 3}, 2))) +
                               ": it was changed or damaged";
  EXPECT_EQ(changed("shard-00000.tokens", other), "no error") << "tokens are read when they are needed";
  EXPECT_EQ(changed("shard-00000.tokens", other, true), expected);
  {
    const TokenDataset data(folder / "d");
    for (int time = 0; time < 2; ++time) EXPECT_THROW(read(data, 0, 1), InputError);
    EXPECT_EQ(read(data, 4, 6).size(), 2u) << "the other shard is whole";
  }
  folder.file("d/shard-00000.tokens", large);
  TokenManifest manifest = TokenDataset(folder / "d").manifest();
  manifest.shards[0].tokens_hash = xxh64(large);
  folder.file("d/manifest.json", to_json(manifest));
  const TokenDataset data(folder / "d");
  EXPECT_EQ(read(data, 0, 3), (TokenIds{1, 2, 0}));
  EXPECT_THROW(read(data, 0, 4), InputError) << "no token is larger than the vocabulary";

  fs::remove(folder / "d/shard-00001.tokens");
  EXPECT_NE(refused(folder / "d").find("cannot open"), path.npos);
  fs::remove(folder / "d/manifest.json");
  EXPECT_EQ(refused(folder / "d"), "'" + path + "' holds no tokens: it has no manifest.json");
  write_dataset(folder / "d/train", {});
  EXPECT_EQ(refused(folder / "d"),
            "'" + path + "' holds no tokens: it has no manifest.json; did you mean '" + path +
                "/train'?");
}

TEST(ShardWriter, GoesOnAfterItsLastFlush) {
  const TestFolder folder;
  fs::create_directories(folder / "d");
  ShardState state;
  {
    ShardWriter writer(folder / "d", 2);
    writer.append("aabb", 3);
    writer.end_shard();
    writer.append("cc", 1);
    writer.end_document();
    writer.flush();
    state = writer.state();
    writer.append("dddd", 5);
    writer.end_document();
    writer.end_shard();
    writer.append("ee", 5);
    writer.flush();
  }
  EXPECT_EQ(folder.content("d").size(), 6u);
  {
    ShardWriter writer(folder / "d", 2, state);
    EXPECT_EQ(folder.content("d")["shard-00001.tokens"], "cc");
    EXPECT_EQ(folder.content("d").size(), 4u);
    writer.append("ff", 5);
    writer.end_document();
    writer.end_shard();
    EXPECT_EQ(writer.state().finished.size(), 2u);
    EXPECT_EQ(writer.state().finished[1],
              (ShardInfo{2, 2, 6, xxh64("ccff"),
                         xxh64(folder.content("d")["shard-00001.documents"])}));
  }
  EXPECT_EQ(folder.content("d")["shard-00000.tokens"], "aabb");
  EXPECT_EQ(folder.content("d")["shard-00001.tokens"], "ccff");
  state.open.tokens = 100;
  EXPECT_THROW(ShardWriter(folder / "d", 2, state), InputError) << "fewer than the journal says";
}

}  // namespace
}  // namespace dp
