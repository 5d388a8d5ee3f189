// The bytes of a file from its beginning to its end, decompressed on the way.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace dp {

enum class Compression { kNone, kGzip, kZstd };

/// By the end of its name: .gz, .zst.
Compression detect_compression(const std::filesystem::path& path);

/// Memory does not depend on the size of the file, nor on what it decompresses to; a zstd file may ask for a window
/// of up to 128 MiB.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// As many of the next bytes as there are, up to `size`; fewer only at the end. Throws InputError, or
  /// std::system_error when reading fails.
  virtual size_t read(char* to, size_t size) = 0;
  /// Passes over bytes. False when the end came before.
  virtual bool skip(uint64_t size);
  /// How many bytes of the file itself have been read.
  virtual uint64_t file_bytes() const = 0;
  /// Once read() has given less than was asked for: why the end is not the real one, or nothing: "is damaged: ...".
  virtual const std::string& damage() const = 0;
};

/// Throws InputError when `path` is not a readable regular file.
std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path, Compression compression);

}  // namespace dp
