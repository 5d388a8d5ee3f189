// The safetensors format: an 8-byte little-endian header length, a JSON header, raw little-endian
// tensors. A file is untrusted until its whole header has been checked; after that every entry can
// be used as it is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dp {

enum class DType {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64
};

size_t dtype_size(DType dtype);            // bytes of one element
std::string_view dtype_name(DType dtype);  // as it is written in a header: "F32"

/// "[2, 3]"
std::string shape_text(std::span<const int64_t> shape);

/// One tensor: row-major, possibly of no dimension (a scalar) or of no element.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  // dtype_size(dtype) times the product of shape; any alignment
};

using TensorMetadata = std::map<std::string, std::string>;

/// A memory-mapped file. Copies share the mapping, which is private: writing to it never reaches
/// the file.
class SafetensorsFile {
 public:
  /// Throws InputError, naming the file and the tensor at fault, for anything but a well-formed
  /// file.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<TensorEntry>& entries() const {
    return entries_;
  }                                                             // in the order of their data
  const TensorMetadata& metadata() const { return metadata_; }  // __metadata__ without checksums

  /// Reads all data and compares it with the checksums that write_safetensors left. Returns the number of tensors that
  /// have one: none in files of other programs. Throws InputError that names the first damaged tensor.
  size_t verify() const;

  const TensorEntry* find(std::string_view name) const;  // null when there is none
  const TensorEntry& at(std::string_view name) const;    // throws InputError when there is none

  /// Keeps every entry's data mapped for as long as it is held.
  std::shared_ptr<const void> mapping() const { return mapping_; }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const void> mapping_;
  std::vector<TensorEntry> entries_;
  TensorMetadata metadata_, checksums_;  // the second by tensor name
  std::map<std::string, size_t, std::less<>> index_;  // name -> position in entries_
};

/// The same checks on bytes in memory, which the entries then point into. `file` is for error
/// messages.
std::vector<TensorEntry> parse_safetensors(std::span<const std::byte> bytes,
                                           const std::string& file, TensorMetadata* metadata);

/// Writes atomically: widest dtype first and then by name, header padded with spaces to a multiple
/// of 8. The metadata also gets "xxh64:NAME", the checksum of tensor NAME's bytes as 16 hexadecimal digits, and
/// "xxh64:__metadata__" of the given metadata; other readers pass over them. Throws std::invalid_argument for repeated names and for data that does not fit its shape.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                       const TensorMetadata& metadata = {});

}  // namespace dp
