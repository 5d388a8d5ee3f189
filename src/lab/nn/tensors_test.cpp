#include "nn/tensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/test_folder.h"

namespace dp {
namespace {
namespace fs = std::filesystem;

class TensorsTest : public testing::Test {
 protected:
  const TestFolder folder_;
  const fs::path path_ = folder_ / "tensors";
};

TEST_F(TensorsTest, RoundTripInEveryCommonDtype) {
  for (const auto type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kByte}) {
    SCOPED_TRACE(at::toString(type));
    const at::Tensor saved = at::arange(6, at::TensorOptions().dtype(type)).view({2, 3});
    write_safetensors(path_, {tensor_entry("t", saved)});
    const at::Tensor loaded =
        load_tensor(SafetensorsFile(path_), "t");  // the file object is gone, the mapping is not
    EXPECT_EQ(loaded.scalar_type(), type);
    EXPECT_TRUE(at::equal(loaded, saved));
  }
}

TEST_F(TensorsTest, UsesAlignedDataInPlaceAndCopiesTheRest) {
  const at::Tensor longs = at::arange(4);
  write_safetensors(path_, {tensor_entry("longs", longs)});
  const SafetensorsFile aligned(path_);
  at::Tensor loaded = load_tensor(aligned, "longs");
  EXPECT_EQ(loaded.data_ptr(), aligned.at("longs").data.data());
  loaded.add_(1);
  EXPECT_TRUE(at::equal(load_tensor(SafetensorsFile(path_), "longs"), longs))
      << "the mapping is private";

  std::string header = R"({"longs":{"dtype":"I64","shape":[4],"data_offsets":[0,32]}})";
  header.resize(header.size() / 8 * 8 + 3 + 8, ' ');  // the data begins three bytes off
  const uint64_t length = header.size();
  std::ofstream(path_, std::ios::binary)
      .write(reinterpret_cast<const char*>(&length), sizeof length)
      .write(header.data(), header.size())
      .write(static_cast<const char*>(longs.data_ptr()), 32);
  EXPECT_TRUE(at::equal(load_tensor(SafetensorsFile(path_), "longs"), longs));
}

TEST_F(TensorsTest, RefusesWhatCannotBeStored) {
  EXPECT_THROW(tensor_entry("t", at::arange(6).view({2, 3}).t()), InputError);
  const std::byte eight[8] = {};
  write_safetensors(path_, {{"t", DType::kU64, {1}, eight}});
  EXPECT_THROW(load_tensor(SafetensorsFile(path_), "t"), InputError);
  // No element, but strides of 2^66: torch would overflow.
  write_safetensors(path_, {{"t", DType::kF32, {0, int64_t{1} << 33, int64_t{1} << 33}, {}}});
  EXPECT_THROW(load_tensor(SafetensorsFile(path_), "t"), InputError);
  write_safetensors(path_, {{"t", DType::kF32, {0, int64_t{1} << 33}, {}}});
  EXPECT_EQ(load_tensor(SafetensorsFile(path_), "t").numel(), 0);
}

}  // namespace
}  // namespace dp
