#include "io/verify_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "io/safetensors.h"
#include "text/prepare_tokens.h"

namespace dp {
namespace {
namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Two tensors and metadata, as this program writes them.
fs::path write_example(const TestFolder& folder) {
  const std::vector<float> weights = {1, 2, 3, 4, 5}, bias = {6, 7};
  const fs::path path = folder / "model.safetensors";
  write_safetensors(path,
                    {{"weights", DType::kF32, {5}, std::as_bytes(std::span(weights))},
                     {"bias", DType::kF32, {2}, std::as_bytes(std::span(bias))}},
                    {{"format", "deltaproduct-state"}, {"tokens_seen", "39"}});
  return path;
}

TEST(VerifyFiles, NoticesEveryFlippedBit) {
  const TestFolder folder;
  const fs::path path = write_example(folder);
  EXPECT_EQ(SafetensorsFile(path).verify(), 2u);
  const std::string whole = contents(path);
  const size_t padding_begin = whole.find("  "), padding_end = whole.find_first_not_of(' ', padding_begin);
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    if (bit / 8 >= padding_begin && bit / 8 < padding_end) continue;  // spaces after the header mean nothing
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    folder.file("model.safetensors", damaged);
    EXPECT_EQ(verify_files(path).damages.size(), 1u) << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

TEST(VerifyFiles, NoticesFlippedBitsOfADataset) {
  const TestFolder folder;
  folder.file("text.txt", "some words\n\nand more\n");
  PrepareOptions options;
  options.text.separator = "";
  options.shard_tokens = 8;
  prepare_tokens(find_text({(folder / "text.txt").string()}).files, *make_byte_tokenizer(), options,
                 folder / "data", [](const PrepareReport&) { return true; });
  EXPECT_EQ(verify_files(folder / "data").verified, 1u);
  size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "data")) {
    const std::string name = "data/" + entry.path().filename().string(), whole = contents(entry.path());
    const size_t label = whole.find("\"checksum\"");  // without its name there is nothing to compare with
    ++files;
    for (size_t bit = 0; bit < 8 * whole.size(); bit += 11) {  // all of them were tried once
      if (label != whole.npos && bit / 8 >= label && bit / 8 < label + 10) continue;
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      folder.file(name, damaged);
      EXPECT_EQ(verify_files(folder / "data").damages.size(), 1u)
          << "bit " << bit % 8 << " of byte " << bit / 8 << " of " << name;
    }
    folder.file(name, whole);
  }
  EXPECT_GE(files, 5u);
}

TEST(VerifyFiles, KnowsWhichFilesHaveChecksums) {
  const TestFolder folder;
  for (const char* name : {"config.json", "tokenizer.model", "notes.txt", "run.json"}) {
    folder.file(name, "{}");
    const FilesReport report = verify_files(folder / name);
    EXPECT_EQ(report.without_checksums, 1u) << name;
    EXPECT_TRUE(report.damages.empty()) << name;
  }
  folder.file("state", "{}");
  EXPECT_EQ(verify_files(folder / "state").damages.size(), 1u) << "a saved state has any name";
}

TEST(VerifyFiles, NamesTheTensor) {
  const TestFolder folder;
  const fs::path path = write_example(folder);
  std::string damaged = contents(path);
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  folder.file("model.safetensors", damaged);
  const FilesReport report = verify_files(path);
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_NE(report.damages[0].find("model.safetensors: tensor 'weights' has the checksum"), std::string::npos)
      << report.damages[0];
}

TEST(VerifyFiles, LooksBelowADirectory) {
  const TestFolder folder;
  fs::create_directories(folder / "run/checkpoints");
  fs::copy_file(write_example(folder), folder / "run/checkpoints/optimiser.safetensors");
  folder.file("run/trainer.json", with_checksum({{"step", 39}}).dump());
  folder.file("run/other.json", "{");
  fs::copy_file(fs::path(DP_TEST_DATA) / "golden/model_a_gated_n2/model.safetensors", folder / "run/theirs.safetensors");
  FilesReport report = verify_files(folder / "run");
  EXPECT_EQ(report.verified, 2u);
  EXPECT_EQ(report.without_checksums, 1u);
  EXPECT_TRUE(report.damages.empty());

  nlohmann::json edited = with_checksum({{"step", 39}});
  edited["step"] = 38;
  folder.file("run/trainer.json", edited.dump());
  fs::resize_file(folder / "run/checkpoints/optimiser.safetensors", 100);
  EXPECT_EQ(verify_files(folder / "run").damages.size(), 2u);
  EXPECT_THROW(verify_files(folder / "nowhere"), InputError);
}

}  // namespace
}  // namespace dp
