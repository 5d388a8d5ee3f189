#include "io/zip.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/quote.h"
#include "io/byte_reader.h"

namespace dp {
namespace {

// Signatures and sizes without the variable parts: APPNOTE.TXT 6.3.10, sections 4.3.7 to 4.3.16.
constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr size_t kEndSize = 22;
constexpr size_t kEnd64LocatorSize = 20;
constexpr size_t kLongestComment = 65535;
constexpr uint32_t kIn64 = 0xffffffff;  // a size or offset that stands in a Zip64 field instead
constexpr uint16_t kCountIn64 = 0xffff;

struct Directory {
  uint64_t count;  // of entries
  uint64_t size;   // in bytes
  uint64_t offset;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  std::vector<ZipRecord> records() {
    const Directory directory = find_directory();
    const auto region = within(directory.offset, directory.size, "its directory");
    ByteReader reader(region, file_ + ": the directory of the archive");
    std::vector<ZipRecord> records;
    std::set<std::string_view> names;
    for (uint64_t i = 0; i < directory.count; ++i) {
      records.push_back(entry(reader));
      if (!names.insert(records.back().name).second)
        fail("has two records named " + quote(records.back().name));
    }
    return records;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(file_ + ": " + problem);
  }

  std::span<const std::byte> within(uint64_t offset, uint64_t size, const std::string& what) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset)
      fail("truncated: " + what + " takes " + std::to_string(size) + " bytes from byte " +
           std::to_string(offset) + ", the file has " + std::to_string(bytes_.size()));
    return bytes_.subspan(offset, size);
  }

  ByteReader reader_at(uint64_t offset, size_t size, const char* what) const {
    return {within(offset, size, what), file_};
  }

  // The end record is the last thing in the file but for a comment.
  size_t find_end() const {
    for (size_t comment = 0; comment <= kLongestComment; ++comment) {
      if (bytes_.size() < kEndSize + comment) break;
      const size_t offset = bytes_.size() - kEndSize - comment;
      if (std::memcmp(bytes_.data() + offset, &kEnd, sizeof kEnd) != 0) continue;
      ByteReader reader = reader_at(offset, kEndSize, "the end record");
      reader.skip(20);
      if (reader.number<uint16_t>() == comment) return offset;
    }
    fail("not a file of torch.save, or truncated: there is no zip directory at its end");
  }

  Directory find_directory() const {
    const size_t end = find_end();
    ByteReader reader = reader_at(end, kEndSize, "the end record");
    reader.skip(10);  // signature, this disk, the directory's disk, entries on this disk
    const auto count = reader.number<uint16_t>();
    const auto size = reader.number<uint32_t>();
    const auto offset = reader.number<uint32_t>();
    if (count != kCountIn64 && size != kIn64 && offset != kIn64) return {count, size, offset};

    if (end < kEnd64LocatorSize) fail("has no Zip64 locator");
    ByteReader locator = reader_at(end - kEnd64LocatorSize, kEnd64LocatorSize, "the Zip64 locator");
    if (locator.number<uint32_t>() != kEnd64Locator) fail("has no Zip64 locator");
    locator.skip(4);  // disk
    ByteReader end64 = reader_at(locator.number<uint64_t>(), 56, "the Zip64 end record");
    if (end64.number<uint32_t>() != kEnd64) fail("has no Zip64 end record where it should be");
    end64.skip(28);  // size, versions, disks, entries on this disk
    Directory directory;
    directory.count = end64.number<uint64_t>();
    directory.size = end64.number<uint64_t>();
    directory.offset = end64.number<uint64_t>();
    return directory;
  }

  // An extra field holds, in this order, whichever of the numbers did not fit into 32 bits.
  void read_zip64(std::span<const std::byte> extra, const std::string& record,
                  std::initializer_list<uint64_t*> numbers) const {
    ByteReader fields(extra, file_ + ": the extra field of record " + record);
    std::optional<ByteReader> zip64;
    while (!zip64 && fields.remaining() > 0) {
      const auto id = fields.number<uint16_t>();
      const auto data = fields.take(fields.number<uint16_t>());
      if (id == 1) zip64.emplace(data, file_ + ": the Zip64 field of record " + record);
    }
    for (uint64_t* number : numbers) {
      if (*number != kIn64) continue;
      if (!zip64) fail("record " + record + " has no Zip64 field");
      *number = zip64->number<uint64_t>();
    }
  }

  ZipRecord entry(ByteReader& reader) const {
    if (reader.number<uint32_t>() != kDirectoryEntry)
      fail("has a damaged directory: no entry at its byte " +
           std::to_string(reader.position() - 4));
    reader.skip(4);  // versions
    const auto flags = reader.number<uint16_t>();
    const auto method = reader.number<uint16_t>();
    reader.skip(8);  // time, date, checksum
    uint64_t stored_size = reader.number<uint32_t>();
    uint64_t size = reader.number<uint32_t>();
    const auto name_size = reader.number<uint16_t>();
    const auto extra_size = reader.number<uint16_t>();
    const auto comment_size = reader.number<uint16_t>();
    reader.skip(8);  // disk, attributes
    uint64_t offset = reader.number<uint32_t>();
    const std::string_view name = reader.text(name_size);
    const std::string record = quote(name);
    read_zip64(reader.take(extra_size), record, {&size, &stored_size, &offset});
    reader.skip(comment_size);

    constexpr uint16_t kEncrypted = 1;
    if (flags & kEncrypted) fail("record " + record + " is encrypted");
    if (method != 0 || stored_size != size)
      fail("record " + record + " is compressed, which torch.save does not do");

    // The local header repeats the entry; of it only the size counts, for the data follows it.
    ByteReader local = reader_at(offset, 30, record.c_str());
    if (local.number<uint32_t>() != kLocalHeader)
      fail("record " + record + " has no header at byte " + std::to_string(offset));
    local.skip(22);
    const uint64_t header_size = 30 + uint64_t{local.number<uint16_t>()} + local.number<uint16_t>();
    return {name, within(offset + header_size, size, "record " + record)};
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
};

}  // namespace

std::vector<ZipRecord> parse_zip(std::span<const std::byte> bytes, const std::string& file) {
  return Parser(bytes, file).records();
}

}  // namespace dp
