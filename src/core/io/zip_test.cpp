#include "io/zip.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/error.h"

namespace dp {
namespace {

template <class T>
void append(std::string& bytes, T number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// An archive with one record of 5 bytes, of which tests change one field at a time.
struct Archive {
  std::string name = "a/data";
  std::string data = "12345";
  uint16_t flags = 0, method = 0;
  uint32_t stored_size = 5, size = 5, local_offset = 0;
  std::string extra = {};
  uint16_t count = 1;
  bool zip64_end = false;
  uint64_t end64_count = 1;
  std::string comment = {};
  bool repeat_entry = false;

  std::string bytes() const {
    std::string file;
    append<uint32_t>(file, 0x04034b50);
    file.append(22, '\0');  // what the directory says better
    append<uint16_t>(file, static_cast<uint16_t>(name.size()));
    append<uint16_t>(file, 3);
    file += name + "???" + data;

    std::string entry;
    append<uint32_t>(entry, 0x02014b50);
    append<uint32_t>(entry, 0);
    append(entry, flags);
    append(entry, method);
    append<uint64_t>(entry, 0);
    append(entry, stored_size);
    append(entry, size);
    append<uint16_t>(entry, static_cast<uint16_t>(name.size()));
    append<uint16_t>(entry, static_cast<uint16_t>(extra.size()));
    append<uint16_t>(entry, 0);
    append<uint64_t>(entry, 0);
    append(entry, local_offset);
    entry += name + extra;
    const uint64_t directory = file.size();
    file += entry;
    if (repeat_entry) file += entry;
    const uint64_t directory_size = file.size() - directory;

    if (zip64_end) {
      const uint64_t end64 = file.size();
      append<uint32_t>(file, 0x06064b50);
      file.append(28, '\0');
      append(file, end64_count);
      append(file, directory_size);
      append(file, directory);
      append<uint32_t>(file, 0x07064b50);
      append<uint32_t>(file, 0);
      append(file, end64);
      append<uint32_t>(file, 1);
    }
    append<uint32_t>(file, 0x06054b50);
    file.append(6, '\0');
    append(file, count);
    append<uint32_t>(file, static_cast<uint32_t>(directory_size));
    append<uint32_t>(file, static_cast<uint32_t>(directory));
    append<uint16_t>(file, static_cast<uint16_t>(comment.size()));
    return file + comment;
  }
};

std::vector<ZipRecord> read_zip(const std::string& bytes) {
  return parse_zip(std::as_bytes(std::span(bytes)), "x.bin");
}

void expect_one_record(const std::string& bytes) {
  const std::vector<ZipRecord> records = read_zip(bytes);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].name, "a/data");
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(records[0].data.data()), records[0].data.size()),
      "12345");
}

std::string zip64_field(std::initializer_list<uint64_t> numbers) {
  std::string field;
  append<uint16_t>(field, 0x5a5a);  // some other field first
  append<uint16_t>(field, 2);
  field += "zz";
  append<uint16_t>(field, 1);
  append<uint16_t>(field, static_cast<uint16_t>(8 * numbers.size()));
  for (const uint64_t number : numbers) append(field, number);
  return field;
}

TEST(Zip, FindsRecords) {
  expect_one_record(Archive{}.bytes());
  expect_one_record(Archive{.comment = "a comment with PK\5\6 inside"}.bytes());
  EXPECT_TRUE(read_zip(Archive{.count = 0}.bytes()).empty());
}

TEST(Zip, FindsRecordsOfLargeArchives) {
  expect_one_record(Archive{.count = 0xffff, .zip64_end = true}.bytes());
  expect_one_record(Archive{.stored_size = 0xffffffff,
                            .size = 0xffffffff,
                            .local_offset = 0xffffffff,
                            .extra = zip64_field({5, 5, 0})}
                        .bytes());
  expect_one_record(Archive{.local_offset = 0xffffffff, .extra = zip64_field({0})}.bytes());
}

TEST(Zip, RefusesMalformedArchives) {
  const std::string good = Archive{}.bytes();
  const auto large = [](std::string extra) {
    return Archive{.stored_size = 0xffffffff, .size = 0xffffffff, .extra = std::move(extra)};
  };
  const std::tuple<const char*, std::string, const char*> cases[] = {
      {"empty", "", "no zip directory"},
      {"end cut off", good.substr(0, good.size() - 1), "no zip directory"},
      {"text after the end", good + "x", "no zip directory"},
      {"front cut off", good.substr(10), "has a damaged directory"},
      {"directory beyond the end", good.substr(60), "truncated: its directory takes"},
      {"encrypted", Archive{.flags = 1}.bytes(), "record 'a/data' is encrypted"},
      {"deflated", Archive{.method = 8}.bytes(), "record 'a/data' is compressed"},
      {"two sizes", Archive{.stored_size = 4}.bytes(), "record 'a/data' is compressed"},
      {"beyond the end", Archive{.stored_size = 5000, .size = 5000}.bytes(),
       "truncated: record 'a/data' takes 5000 bytes"},
      {"offset beyond the end", Archive{.local_offset = 5000}.bytes(), "truncated: 'a/data'"},
      {"offset elsewhere", Archive{.local_offset = 1}.bytes(),
       "record 'a/data' has no header at byte 1"},
      {"fewer entries than said", Archive{.count = 2}.bytes(), "the directory of the archive ends"},
      {"same name twice", Archive{.count = 2, .repeat_entry = true}.bytes(),
       "two records named 'a/data'"},
      {"no Zip64 locator", Archive{.count = 0xffff}.bytes(), "has no Zip64 locator"},
      {"endless Zip64 directory",
       Archive{.count = 0xffff, .zip64_end = true, .end64_count = ~uint64_t{0}}.bytes(),
       "the directory of the archive ends"},
      {"no Zip64 field", large("").bytes(), "record 'a/data' has no Zip64 field"},
      {"short Zip64 field", large(zip64_field({5})).bytes(), "the Zip64 field of record 'a/data'"},
      {"torn extra field", large("\1").bytes(), "the extra field of record 'a/data'"},
      {"sizes that wrap around", large(zip64_field({~uint64_t{0} - 10, ~uint64_t{0} - 10})).bytes(),
       "truncated: record"},
      {"offset that wraps around",
       Archive{.local_offset = 0xffffffff, .extra = zip64_field({~uint64_t{0} - 10})}.bytes(),
       "truncated: 'a/data'"},
  };
  for (const auto& [what, bytes, message] : cases) {
    SCOPED_TRACE(what);
    try {
      read_zip(bytes);
      ADD_FAILURE() << "was accepted";
    } catch (const InputError& error) {
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with("x.bin: ")) << text;
      EXPECT_NE(text.find(message), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace dp
