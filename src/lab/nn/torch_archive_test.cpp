#include "io/torch_archive.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/test_folder.h"
#include "nn/tensors.h"

namespace dp {
namespace {
namespace fs = std::filesystem;

// The files are made by a real torch.save, once for all tests; see torch_archive_test.py.
class TorchArchiveTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    temporary_.emplace();
    folder_ = temporary_->path();
    const fs::path script = fs::path(DP_SOURCE_DIR) / "src/lab/nn/torch_archive_test.py";
    const std::string command =
        std::string(DP_PYTHON) + " -B '" + script.string() + "' '" + folder_.string() + "'";
    made_ = std::system(command.c_str()) == 0;
  }
  static void TearDownTestSuite() { temporary_.reset(); }
  void SetUp() override { ASSERT_TRUE(made_) << "no python3 can import torch"; }

  static inline std::optional<TestFolder> temporary_;
  static inline fs::path folder_;
  static inline bool made_ = false;
};

TEST_F(TorchArchiveTest, ReadsEveryDtype) {
  const std::pair<const char*, at::ScalarType> dtypes[] = {
      {"float32", at::kFloat}, {"float64", at::kDouble},    {"float16", at::kHalf},
      {"int64", at::kLong},    {"bfloat16", at::kBFloat16}, {"int32", at::kInt},
      {"int16", at::kShort},   {"int8", at::kChar},         {"uint8", at::kByte},
      {"bool", at::kBool}};
  for (const char* file : {"dtypes.bin", "rewritten.bin", "little_endian.bin"}) {
    const Checkpoint checkpoint = Checkpoint::open(folder_ / file);
    EXPECT_EQ(checkpoint.names().size(), std::size(dtypes));
    for (const auto& [name, type] : dtypes) {
      SCOPED_TRACE(std::string(file) + " " + name);
      const at::Tensor tensor = load_tensor(checkpoint, name);
      EXPECT_EQ(tensor.scalar_type(), type);
      EXPECT_TRUE(at::equal(tensor, at::arange(-2, 4).to(type).view({2, 3}))) << tensor;
    }
  }
}

TEST_F(TorchArchiveTest, ReadsStateDictsAndTiedWeightsInPlace) {
  const TorchArchive archive(folder_ / "state_dict.bin");
  ASSERT_EQ(archive.entries().size(), 2);
  EXPECT_EQ(archive.entries()[0].name, "embed.weight") << "as it was saved";
  const Checkpoint checkpoint = Checkpoint::open(folder_ / "state_dict.bin");
  const at::Tensor embed = load_tensor(checkpoint, "embed.weight");
  at::Tensor head = load_tensor(checkpoint, "head.weight");
  EXPECT_TRUE(at::equal(head, at::arange(12, at::kFloat).view({4, 3})));
  EXPECT_EQ(head.data_ptr(), embed.data_ptr());
  EXPECT_EQ(head.data_ptr(), checkpoint.tensor("head.weight").data.data());
  head.add_(1);  // the mapping is private
  EXPECT_TRUE(at::equal(load_tensor(Checkpoint::open(folder_ / "state_dict.bin"), "head.weight"),
                        at::arange(12, at::kFloat).view({4, 3})));
  EXPECT_THROW(archive.at("tail.weight"), InputError);
}

TEST_F(TorchArchiveTest, ReadsStridesScalarsParametersAndEmptyTensors) {
  const Checkpoint checkpoint = Checkpoint::open(folder_ / "strides.bin");
  const at::Tensor base = at::arange(24, at::kFloat).view({4, 6});
  EXPECT_TRUE(at::equal(load_tensor(checkpoint, "transposed"), base.t()));
  EXPECT_FALSE(load_tensor(checkpoint, "transposed").is_contiguous());
  EXPECT_TRUE(at::equal(load_tensor(checkpoint, "columns"), base.slice(0, 1).slice(1, 2, 4)));
  EXPECT_TRUE(at::equal(load_tensor(checkpoint, "scalar"), base[2][3]));
  EXPECT_TRUE(at::equal(load_tensor(checkpoint, "last"), base[3]));
  EXPECT_EQ(load_tensor(checkpoint, "empty").sizes(), (at::IntArrayRef{0, 5}));
  EXPECT_TRUE(at::equal(load_tensor(checkpoint, "parameter"), at::ones({2})));
  EXPECT_TRUE(at::equal(load_tensor(checkpoint, "many"), at::arange(70000)));
  const Checkpoint many = Checkpoint::open(folder_ / "many.bin");
  EXPECT_EQ(many.names().size(), 400);
  EXPECT_TRUE(at::equal(load_tensor(many, "layer.399"), at::full({3}, 399.f)));
}

TEST_F(TorchArchiveTest, ReadsDataAtAnyAlignment) {
  size_t num_copied = 0;  // python's zipfile aligns nothing
  const Checkpoint checkpoint = Checkpoint::open(folder_ / "rewritten.bin");
  for (const std::string& name : checkpoint.names())
    num_copied +=
        load_tensor(checkpoint, name).data_ptr() != checkpoint.tensor(name).data.data();
  EXPECT_GT(num_copied, 0);
}

TEST_F(TorchArchiveTest, ReadsDirectoriesOfBins) {
  const fs::path single = folder_ / "single", shards = folder_ / "shards";
  fs::create_directories(single);
  fs::create_directories(shards);
  fs::copy_file(folder_ / "state_dict.bin", single / "pytorch_model.bin");
  EXPECT_TRUE(Checkpoint::open(single).has("head.weight"));

  fs::copy_file(folder_ / "state_dict.bin", shards / "a.bin");
  fs::copy_file(folder_ / "expanded.bin", shards / "b.bin");
  std::ofstream(shards / "pytorch_model.bin.index.json")
      << R"({"weight_map": {"embed.weight": "a.bin", "head.weight": "a.bin"}})";
  EXPECT_EQ(Checkpoint::open(shards).names(),
            (std::vector<std::string>{"embed.weight", "head.weight"}));
}

TEST_F(TorchArchiveTest, RefusesEverythingElse) {
  const std::pair<const char*, const char*> cases[] = {
      {"old_format.bin", "format of torch before 1.6"},
      {"list.bin", "uses instruction 93"},
      {"nested.bin", "holds a dict under the name 'model', not a tensor"},
      {"number.bin", "holds an int under the name 'epoch', not a tensor"},
      {"protocol4.bin", "is of protocol 4"},
      {"expanded.bin", "tensor 'a' does not fit its storage '0' of 1 elements"},
      {"module.bin", "asks for 'torch.nn.modules.linear.Linear'"},
      {"system.bin", "asks for 'posix.system'"},
      {"pickle_eval.bin", "asks for '__builtin__.eval'"},
      {"compressed.bin", "is compressed"},
      {"short_storage.bin", "6 elements of 4 bytes, but its record has 20 bytes"},
      {"long_storage.bin", "6 elements of 4 bytes, but its record has 28 bytes"},
      {"no_storage.bin", "tensor 'float32' lies in storage '0', which the archive does not have"},
      {"no_pickle.bin", "has no record data.pkl"},
      {"big_endian.bin", "not little-endian"},
      {"cut_pickle.bin", "the pickle "},
      {"beyond.bin", "tensor 'float32' does not fit its storage '0' of 6 elements"},
      {"far_stride.bin", "tensor 'float32' does not fit its storage"},
      {"negative_stride.bin", "tensor 'float32' has a negative"},
      {"huge_shape.bin", "tensor 'float32' has an impossible shape"},
      {"missing_stride.bin", "tensor 'float32' has 2 sizes and 1 strides"},
      {"twice.bin", "names 'float32' twice"},
      {"pickle_underflow.bin", "empty stack"},
      {"pickle_no_mark.bin", "lacks a mark"},
      {"pickle_no_memo.bin", "recalls slot 7"},
      {"pickle_self.bin", "holds a dict under the name 'a'"},
      {"pickle_long_string.bin", "the pickle ends at byte"},
      {"pickle_empty.bin", "the pickle ends at byte 0"},
      {"pickle_deep.bin", "holds a tuple, not a dict"},
      {"pickle_two_values.bin", "does not end with its one value"},
      {"cut_0.bin", "no zip directory"},
      {"cut_1.bin", "no zip directory"},
      {"cut_21.bin", "no zip directory"},
      {"cut_22.bin", "no zip directory"},
      {"cut_100.bin", "no zip directory"},
      {"cut_late_23.bin", "no zip directory"},
      {"cut_late_1.bin", "no zip directory"},
  };
  for (const auto& [name, message] : cases) {
    SCOPED_TRACE(name);
    const fs::path path = folder_ / name;
    ASSERT_TRUE(fs::exists(path));
    try {
      Checkpoint::open(path);
      ADD_FAILURE() << "was accepted";
    } catch (const InputError& error) {
      const std::string what = error.what();
      EXPECT_TRUE(what.starts_with(path.string() + ": ")) << what;
      EXPECT_NE(what.find(message), std::string::npos) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  }
  EXPECT_FALSE(fs::exists("executed") || fs::exists(folder_ / "executed"));
}

}  // namespace
}  // namespace dp
