#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/error.h"
#include "base/test_folder.h"

namespace dp {
namespace {
namespace fs = std::filesystem;

std::string make_length(uint64_t length) {
  return {reinterpret_cast<const char*>(&length), sizeof length};
}

// A file: the length of the header, the header, `data_bytes` zeros.
std::string make_file(const std::string& header, size_t data_bytes) {
  return make_length(header.size()) + header + std::string(data_bytes, '\0');
}

std::string repeat(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

std::vector<TensorEntry> parse(const std::string& bytes, TensorMetadata* metadata = nullptr) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "x.safetensors", metadata);
}

class SafetensorsTest : public testing::Test {
 protected:
  const TestFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(SafetensorsTest, WritesWhatItReads) {
  const std::vector<float> floats = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> longs = {-7};
  const fs::path path = folder_ / "a.safetensors";
  write_safetensors(path,
                    {{"b", DType::kF32, {2, 3}, std::as_bytes(std::span(floats))},
                     {"a", DType::kF32, {0, 5}, {}},
                     {"z", DType::kI64, {}, std::as_bytes(std::span(longs))}},
                    {{"format", "pt"}});

  const SafetensorsFile file(path);
  ASSERT_EQ(file.entries().size(), 3);
  EXPECT_EQ(file.metadata(), (TensorMetadata{{"format", "pt"}}));
  EXPECT_EQ(file.entries()[0].name, "z") << "widest first";
  EXPECT_EQ(file.entries()[1].name, "a") << "then by name";
  EXPECT_EQ(file.at("b").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(file.at("b").data.data(), floats.data(), sizeof(float) * floats.size()), 0);
  EXPECT_TRUE(file.at("z").shape.empty());
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_THROW(file.at("c"), InputError);
  EXPECT_EQ(
      (file.entries()[0].data.data() - static_cast<const std::byte*>(file.mapping().get())) % 8, 0);
}

TEST_F(SafetensorsTest, CopiesOfGoldenFilesDifferInChecksumsAlone) {
  size_t num_files = 0;
  for (const auto& item : fs::recursive_directory_iterator(fs::path(DP_TEST_DATA) / "golden")) {
    if (item.path().extension() != ".safetensors") continue;
    SCOPED_TRACE(item.path());
    const SafetensorsFile file(item.path());
    write_safetensors(folder_ / "copy", file.entries(), file.metadata());
    const SafetensorsFile copy(folder_ / "copy");
    EXPECT_EQ(copy.metadata(), file.metadata());
    EXPECT_EQ(copy.verify(), file.entries().size());
    EXPECT_EQ(file.verify(), 0u) << "made by another program";
    ASSERT_EQ(copy.entries().size(), file.entries().size());
    for (size_t i = 0; i < file.entries().size(); ++i) {
      const TensorEntry &a = copy.entries()[i], &b = file.entries()[i];
      EXPECT_EQ(std::tie(a.name, a.dtype, a.shape), std::tie(b.name, b.dtype, b.shape));
      EXPECT_TRUE(std::ranges::equal(a.data, b.data)) << a.name;
    }
    ++num_files;
  }
  EXPECT_GE(num_files, 5);
}

TEST_F(SafetensorsTest, RefusesToWriteWhatItCouldNotRead) {
  const std::vector<float> floats(4);
  const auto data = std::as_bytes(std::span(floats));
  const auto path = folder_ / "a.safetensors";
  EXPECT_THROW(
      write_safetensors(path, {{"a", DType::kF32, {4}, data}, {"a", DType::kF32, {4}, data}}),
      std::invalid_argument);
  EXPECT_THROW(write_safetensors(path, {{"__metadata__", DType::kF32, {4}, data}}),
               std::invalid_argument);
  EXPECT_THROW(write_safetensors(path, {{"a", DType::kF32, {5}, data}}), std::invalid_argument);
  EXPECT_THROW(write_safetensors(path, {{"a", DType::kF32, {-2, -2}, data}}),
               std::invalid_argument);
  EXPECT_THROW(write_safetensors(path, {{"\xff", DType::kF32, {4}, data}}), std::invalid_argument);
  EXPECT_THROW(write_safetensors(folder_ / "missing" / "a", {}), InputError);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SafetensorsTest, NamesFilesThatCannotBeOpened) {
  for (const fs::path& path : {folder_ / "missing", folder_}) {
    try {
      SafetensorsFile file(path);
      ADD_FAILURE() << path << " was read";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  }
}

TEST(ParseSafetensors, AcceptsUnusualButValidFiles) {
  EXPECT_TRUE(parse(make_file("{}", 0)).empty());
  TensorMetadata metadata;
  const std::string odd = make_file(
      R"({"__metadata__":{"a":"b"},"t":{"data_offsets":[0,3],"dtype":"U8","shape":[3],"x":1}} )",
      3);
  EXPECT_EQ(parse(odd, &metadata).at(0).data.size(), 3);
  EXPECT_EQ(metadata.at("a"), "b");
  // An empty tensor lies at the boundary of its neighbours, in whatever order they are named.
  const std::string empty = make_file(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[0,9223372036854775807,9],"data_offsets":[0,0]}})",
      4);
  EXPECT_EQ(parse(empty).at(0).name, "b");
}

struct Malformed {
  const char* what;
  std::string bytes;
  const char* message;  // must appear in the error
};

std::string one_tensor(const std::string& fields, size_t data_bytes) {
  return make_file(R"({"t":)" + fields + "}", data_bytes);
}

TEST(ParseSafetensors, RefusesMalformedFiles) {
  const std::string good = one_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8);
  ASSERT_EQ(parse(good).size(), 1);
  const std::string huge_length(8, '\xff');
  const auto two = [](const char* a, const char* b, size_t data_bytes) {
    const std::string fields = R"({"dtype":"U8","shape":[4],"data_offsets":)";
    return make_file(R"({"a":)" + fields + a + R"(},"b":)" + fields + b + "}}", data_bytes);
  };
  const std::vector<Malformed> cases = {
      {"empty file", "", "0 bytes"},
      {"length cut off", good.substr(0, 7), "7 bytes"},
      {"length without end", huge_length + "{}", "claims a header of 18446744073709551615"},
      {"length just beyond the limit", make_length(100'000'001) + std::string(100, '{'),
       "claims a header of 100000001 bytes, the limit is 100000000"},
      {"length one beyond the end", make_length(good.size() - 8 + 1) + good.substr(8),
       "truncated: the header should take"},
      {"length of nothing", make_length(0) + "{}", "does not begin with '{'"},
      {"header cut off", good.substr(0, 20), "truncated: the header should take"},
      {"data cut off", good.substr(0, good.size() - 1),
       "tensor 't' ends at byte 8 of the data, of which the file holds only 7"},
      {"data too long", good + "x", "goes on to byte 9"},
      {"no object", make_file("[]", 0), "does not begin with '{'"},
      {"space first", make_file(" {}", 0), "does not begin with '{'"},
      {"not JSON", make_file("{\"t\":}", 0), "not valid JSON"},
      {"JSON cut off", make_file("{\"t\"", 0), "not valid JSON"},
      {"text after the object", make_file("{} x", 0), "not valid JSON"},
      {"invalid UTF-8", make_file("{\"\xff\":1}", 0), "not valid JSON"},
      {"deep nesting", make_file("{\"t\":" + std::string(100'000, '['), 0),
       "nests values more than 64 deep"},
      {"deep nesting, closed",
       one_tensor(R"({"dtype":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0),
       "nests values more than 64 deep"},
      {"objects in objects", make_file(repeat(R"({"t":)", 70) + "1" + repeat("}", 70), 0),
       "nests values more than 64 deep"},
      {"endless name", make_file("{\"" + std::string(10'000, 'n'), 0), "not valid JSON"},
      {"not a number", one_tensor(R"({"dtype":"F32","shape":[NaN],"data_offsets":[0,8]})", 8),
       "not valid JSON"},
      {"number too large", one_tensor(R"({"dtype":"F32","shape":[1e999],"data_offsets":[0,8]})", 8),
       "not valid JSON"},
      {"repeated tensor", make_file(R"({"t":1,"t":2})", 0), "names 't' twice"},
      {"repeated field",
       one_tensor(R"({"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]})", 0),
       "names 'dtype' twice"},
      {"tensor not an object", one_tensor("3", 0), "tensor 't' is described by number"},
      {"no dtype", one_tensor(R"({"shape":[2],"data_offsets":[0,8]})", 8),
       "tensor 't' has no 'dtype'"},
      {"no shape", one_tensor(R"({"dtype":"F32","data_offsets":[0,8]})", 8),
       "tensor 't' has no 'shape'"},
      {"no offsets", one_tensor(R"({"dtype":"F32","shape":[2]})", 8),
       "tensor 't' has no 'data_offsets'"},
      {"unknown dtype", one_tensor(R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})", 8),
       "unknown dtype '\"F31\"'"},
      {"dtype not a string", one_tensor(R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})", 8),
       "unknown dtype '4'"},
      {"shape not a list", one_tensor(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})", 8),
       "shape that is not a list"},
      {"negative size", one_tensor(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", 8),
       "not made of sizes"},
      {"fractional size", one_tensor(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", 8),
       "not made of sizes"},
      {"size above 2^63",
       one_tensor(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,8]})", 8),
       "not made of sizes"},
      {"size above 2^64",
       one_tensor(R"({"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,8]})", 8),
       "not made of sizes"},
      {"product overflows to 8",
       one_tensor(R"({"dtype":"F64","shape":[4294967296,4294967296,1],"data_offsets":[0,8]})", 8),
       "impossible shape"},
      {"bytes overflow",
       one_tensor(R"({"dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8]})", 8),
       "impossible shape"},
      {"bytes overflow to 8",
       one_tensor(R"({"dtype":"F64","shape":[2305843009213693952,8],"data_offsets":[0,8]})", 8),
       "tensor 't' has the impossible shape"},
      {"shape of lists", one_tensor(R"({"dtype":"F32","shape":[[2]],"data_offsets":[0,8]})", 8),
       "not made of sizes"},
      {"three offsets", one_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4,8]})", 8),
       "expected [begin, end]"},
      {"offsets above 2^63",
       one_tensor(
           R"({"dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,18446744073709551615]})",
           8),
       "tensor 't' ends at byte 18446744073709551615"},
      {"empty tensor beyond the end",
       one_tensor(R"({"dtype":"F32","shape":[0],"data_offsets":[9,9]})", 8), "ends at byte 9"},
      {"empty tensor inside another",
       make_file(
           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})",
           8),
       "tensor 'b' overlaps"},
      {"one offset", one_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})", 8),
       "expected [begin, end]"},
      {"offsets reversed", one_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", 8),
       "expected [begin, end]"},
      {"offsets an object",
       one_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":{"a":0,"b":8}})", 8),
       "expected [begin, end]"},
      {"negative offset", one_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[-8,8]})", 8),
       "expected [begin, end]"},
      {"offset out of range", one_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})", 8),
       "ends at byte 12"},
      {"size mismatch", one_tensor(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8),
       "needs 12 bytes, but its data_offsets give it 8"},
      {"overlap", two("[0,4]", "[2,6]", 6), "tensor 'b' overlaps"},
      {"same bytes twice", two("[0,4]", "[0,4]", 4), "overlaps"},
      {"hole", two("[0,4]", "[5,9]", 9),
       "tensor 'b' begins at byte 5, which leaves a hole of 1 bytes"},
      {"one inside the other", two("[0,4]", "[0,4]", 8), "overlaps"},
      {"out of order with a hole", two("[5,9]", "[0,4]", 9), "tensor 'a' begins at byte 5"},
      {"hole in front", one_tensor(R"({"dtype":"U8","shape":[4],"data_offsets":[4,8]})", 8),
       "hole of 4 bytes"},
      {"metadata not an object", make_file(R"({"__metadata__":[]})", 0),
       "__metadata__ is not an object"},
      {"metadata not text", make_file(R"({"__metadata__":{"a":1}})", 0),
       "__metadata__ field 'a' is not a string"},
  };
  for (const Malformed& malformed : cases) {
    SCOPED_TRACE(malformed.what);
    try {
      parse(malformed.bytes);
      ADD_FAILURE() << "was accepted";
    } catch (const InputError& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with("x.safetensors: ")) << message;
      EXPECT_NE(message.find(malformed.message), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_LT(message.size(), 400) << message;
    }
  }
}

}  // namespace
}  // namespace dp
