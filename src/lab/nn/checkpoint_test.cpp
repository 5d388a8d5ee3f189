#include "io/checkpoint.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/test_folder.h"
#include "nn/tensors.h"

namespace dp {
namespace {
namespace fs = std::filesystem;

void write_text(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Two tensors of 12 bytes, one of 8 and one of 4.
NamedTensors four_tensors(float value) {
  return {{"c", at::full({3}, value)},
          {"a", at::full({3}, value + 1)},
          {"d", at::full({2}, value + 2)},
          {"b", at::full({2}, value + 3, at::kBFloat16)}};
}

void expect_holds(const fs::path& path, const NamedTensors& tensors) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  EXPECT_EQ(checkpoint.names().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_TRUE(checkpoint.has(name)) << name;
    EXPECT_EQ(load_tensor(checkpoint, name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(load_tensor(checkpoint, name), tensor)) << name;
  }
}

class CheckpointTest : public testing::Test {
 protected:
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& item : fs::directory_iterator(folder_))
      names.push_back(item.path().filename());
    std::ranges::sort(names);
    return names;
  }
  // A shard named `name` with zeros for `tensors`.
  void write_shard(const std::string& name, const std::vector<std::string>& tensors) const {
    const at::Tensor zeros = at::zeros({2});
    std::vector<TensorEntry> entries;
    for (const std::string& tensor : tensors) entries.push_back(tensor_entry(tensor, zeros));
    write_safetensors(folder_ / name, entries);
  }
  std::string error_of_open(const fs::path& path) const {
    try {
      Checkpoint::open(path);
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    return "no error";
  }

  const TestFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(CheckpointTest, WritesOneFileThatHuggingFaceReads) {
  const at::Tensor matrix = at::arange(6, at::kFloat).view({2, 3}).t();
  const NamedTensors tensors = {{"matrix", matrix},
                                {"same", matrix},
                                {"half", at::full({2}, 1.5, at::kHalf)},
                                {"learnt", at::full({2}, 2.f).requires_grad_()},
                                {"count", at::arange(3)},
                                {"none", at::zeros({0, 4})}};
  write_checkpoint(folder_ / "new" / "run", tensors);
  expect_holds(folder_ / "new" / "run", tensors);
  expect_holds(folder_ / "new" / "run" / "model.safetensors", tensors);
  EXPECT_EQ(SafetensorsFile(folder_ / "new" / "run" / "model.safetensors").metadata(),
            (TensorMetadata{{"format", "pt"}}));
}

TEST_F(CheckpointTest, ReadsGoldenModels) {
  const Checkpoint checkpoint =
      Checkpoint::open(fs::path(DP_TEST_DATA) / "golden" / "model_a_gated_n2");
  EXPECT_TRUE(checkpoint.has("model.embeddings.weight"));
  EXPECT_TRUE(std::ranges::is_sorted(checkpoint.names()));
  try {
    load_tensor(checkpoint, "model.embedding.weight");
    ADD_FAILURE() << "was found";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()),
              checkpoint.path().string() +
                  ": has no tensor 'model.embedding.weight'; the most like it is "
                  "'model.embeddings.weight'");
  }
}

TEST_F(CheckpointTest, SplitsIntoShardsInOrder) {
  const NamedTensors tensors = four_tensors(1);
  write_checkpoint(folder_, tensors, 24);
  EXPECT_EQ(files(), (std::vector<std::string>{"model-00001-of-00002.safetensors",
                                               "model-00002-of-00002.safetensors",
                                               "model.safetensors.index.json"}));
  expect_holds(folder_, tensors);
  expect_holds(folder_ / "model.safetensors.index.json", tensors);
  const auto index = nlohmann::json::parse(read_text(folder_ / "model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 36);
  EXPECT_EQ(index["weight_map"]["a"], "model-00001-of-00002.safetensors");
  EXPECT_EQ(index["weight_map"]["b"], "model-00002-of-00002.safetensors");

  write_checkpoint(folder_, tensors, 1);  // every tensor is too large
  EXPECT_EQ(files().size(), 5);
  expect_holds(folder_, tensors);
}

TEST_F(CheckpointTest, ReplacesEveryLayoutByEveryOther) {
  const std::vector<int64_t> limits = {36, 24, 1, 24, 24, 36, 36, 12, 12, 36};
  float value = 0;
  for (const int64_t limit : limits) {
    SCOPED_TRACE(limit);
    value += 10;
    write_checkpoint(folder_, four_tensors(value), limit);
    expect_holds(folder_, four_tensors(value));
    const size_t num_shards = limit == 36 ? 1 : limit == 24 ? 2 : limit == 12 ? 3 : 4;
    EXPECT_EQ(files().size(), num_shards == 1 ? 1 : num_shards + 1) << "nothing is left over";
  }
}

TEST_F(CheckpointTest, LeavesFilesAloneThatAreNotItsShards) {
  const std::vector<std::string> others = {"config.json",
                                           "expert-00001-of-00002.safetensors",
                                           "model-00001-of.safetensors",
                                           "model-a.safetensors",
                                           "model-00001-of-00002.safetensors.bak",
                                           "model-rx-1-of-2.bin",
                                           "model-r-00001-of-00002.safetensors",
                                           "pytorch_model.bin"};
  for (const std::string& name : others) write_text(folder_ / name, "mine");
  write_text(folder_ / "model-00003-of-00004.safetensors", "a crash left it");
  write_checkpoint(folder_, four_tensors(1));
  for (const std::string& name : others) EXPECT_EQ(read_text(folder_ / name), "mine") << name;
  EXPECT_EQ(files().size(), others.size() + 1);
}

TEST_F(CheckpointTest, RewritesItsOwnMappedTensors) {
  for (const int64_t limit : {36, 24, 24, 36}) {
    if (files().empty()) write_checkpoint(folder_, four_tensors(1));
    const Checkpoint checkpoint = Checkpoint::open(folder_);
    NamedTensors tensors;
    for (const auto& name : checkpoint.names())
      tensors.emplace_back(name, load_tensor(checkpoint, name));
    write_checkpoint(folder_, tensors, limit);
    expect_holds(folder_, four_tensors(1));
  }
}

// What a crash between two steps of write_checkpoint leaves, step by step.
TEST_F(CheckpointTest, FindsTheOldWeightsUntilTheNewAreComplete) {
  write_checkpoint(folder_, four_tensors(1), 24);
  write_checkpoint(folder_ / "new", four_tensors(2), 24);
  const std::string first = "model-00001-of-00002.safetensors";
  const std::string second = "model-00002-of-00002.safetensors";
  fs::copy(folder_ / "new" / first, folder_ / "model-r1-00001-of-00002.safetensors");
  expect_holds(folder_, four_tensors(1));
  write_checkpoint(folder_, four_tensors(3), 24);  // neither overwrites what is there
  expect_holds(folder_, four_tensors(3));
  EXPECT_EQ(files(), (std::vector<std::string>{"model-r2-00001-of-00002.safetensors",
                                               "model-r2-00002-of-00002.safetensors",
                                               "model.safetensors.index.json", "new"}));

  write_checkpoint(folder_, four_tensors(4));  // a single file; then the shards of another
  for (const std::string& name : {first, second, std::string("model.safetensors.index.json")}) {
    fs::copy(folder_ / "new" / name, folder_ / name);
    expect_holds(folder_, four_tensors(4));
  }
  fs::remove(folder_ / "model.safetensors");
  expect_holds(folder_, four_tensors(2));
}

TEST_F(CheckpointTest, LeavesNothingBehindWhenWritingFails) {
  write_checkpoint(folder_, four_tensors(1), 24);
  const auto before = files();
  NamedTensors tensors = four_tensors(2);
  tensors.emplace_back("complex", at::zeros({9}, at::kComplexFloat));
  EXPECT_THROW(write_checkpoint(folder_, tensors, 24), InputError);
  tensors.back() = {"a", at::zeros({9})};
  EXPECT_THROW(write_checkpoint(folder_, tensors, 24), std::invalid_argument);
  tensors.back() = {"\xff", at::zeros({9})};
  EXPECT_THROW(write_checkpoint(folder_, tensors, 24), std::invalid_argument);
  EXPECT_EQ(files(), before);
  expect_holds(folder_, four_tensors(1));
}

TEST_F(CheckpointTest, PrefersSafetensorsOverBins) {
  write_text(folder_ / "pytorch_model.bin", "not an archive");
  EXPECT_NE(error_of_open(folder_).find("pytorch_model.bin: not a file of torch.save"),
            std::string::npos);
  write_checkpoint(folder_, four_tensors(1), 24);
  expect_holds(folder_, four_tensors(1));
  EXPECT_TRUE(fs::exists(folder_ / "pytorch_model.bin")) << "somebody else's";
}

TEST_F(CheckpointTest, NamesWhatIsMissing) {
  EXPECT_EQ(error_of_open(folder_), folder_.string() +
                                        ": has no weights: neither model.safetensors nor "
                                        "pytorch_model.bin, nor the .index.json of either");
  EXPECT_NE(error_of_open(folder_ / "missing").find("cannot open"), std::string::npos);
  fs::create_symlink("nowhere", folder_ / "model.safetensors");
  EXPECT_NE(error_of_open(folder_).find("model.safetensors': No such file"), std::string::npos);
}

TEST_F(CheckpointTest, RefusesIndexesThatDoNotFitTheirShards) {
  write_shard("s1.safetensors", {"a", "b"});
  write_shard("s2.safetensors", {"c"});
  write_shard("s3.safetensors", {"b", "c"});
  fs::create_directories(folder_ / "below");
  const fs::path index = folder_ / "model.safetensors.index.json";
  const std::pair<const char*, const char*> cases[] = {
      {R"({"weight_map":{"a":"s1.safetensors","b":"s1.safetensors","c":"s2.safetensors"}})",
       "no error"},
      {R"({"weight_map":{}})", "no error"},
      {R"([])", "the index is not an object"},
      {R"({"weight_map":)", "the index is not valid JSON"},
      {R"({"weight_map":{}} x)", "the index is not valid JSON"},
      {R"({})", "has no object 'weight_map'"},
      {R"({"weight_map":["a"]})", "has no object 'weight_map'"},
      {R"({"weight_map":{},"weight_map":{}})", "the index names 'weight_map' twice"},
      {R"({"weight_map":{"c":"s2.safetensors","c":"s2.safetensors"}})", "names 'c' twice"},
      {R"({"weight_map":{"c":7}})", "tensor 'c' is mapped to '7', not to a file"},
      {R"({"weight_map":{"c":""}})", "tensor 'c' is mapped to ''"},
      {R"({"weight_map":{"c":".."}})", "tensor 'c' is mapped to '..'"},
      {R"({"weight_map":{"c":"."}})", "tensor 'c' is mapped to '.'"},
      {R"({"weight_map":{"c":"../s2.safetensors"}})", "not the name of a file beside the index"},
      {R"({"weight_map":{"c":"/etc/passwd"}})", "not the name of a file beside the index"},
      {R"({"weight_map":{"c":"s2.safetensors\u0000.bin"}})", "not the name of a file"},
      {R"({"weight_map":{"c":"below"}})", "not a regular file"},
      {R"({"weight_map":{"c":"model.safetensors.index.json"}})", "index.json: not a file of"},
      {R"({"weight_map":{"c":"s4.safetensors"}})",
       "names the shard 's4.safetensors', which is not beside it"},
      {R"({"weight_map":{"a":"s1.safetensors"}})",
       "s1.safetensors: holds tensor 'b', which 'model.safetensors.index.json' does not list"},
      {R"({"weight_map":{"a":"s1.safetensors","b":"s1.safetensors","c":"s3.safetensors"}})",
       "s3.safetensors: holds tensor 'b', which 'model.safetensors.index.json' has in "
       "'s1.safetensors'"},
      {R"({"weight_map":{"c":"s2.safetensors","d":"s2.safetensors"}})",
       "s2.safetensors: has no tensor 'd', which 'model.safetensors.index.json' has there"},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    write_text(index, text);
    const std::string error = error_of_open(folder_);
    EXPECT_NE(error.find(message), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace dp
