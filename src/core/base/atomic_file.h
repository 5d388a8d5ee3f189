// Files that appear under their name only once they are complete.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace dp {

/// Throws InputError unless a file can be written at `path`. For work that ends in writing one:
/// find out before, not after.
void require_writable(const std::filesystem::path& path);

/// Throws InputError if there is anything at `path`, a symbolic link that leads nowhere included. For work that ends in a new
/// directory.
void require_new(const std::filesystem::path& path);

/// A new directory beside `target`, to be filled and renamed to it: "TARGET.unfinished-XXXXXX", which nobody else has. Throws
/// InputError.
std::filesystem::path make_unfinished_directory(const std::filesystem::path& target);

/// Bytes go to a temporary file beside `path`; commit() flushes it to the disk and renames it.
/// Whoever opens `path` sees the old content or all of the new, also after a crash. A device or
/// pipe (/dev/stdout) is written to directly. A symbolic link is followed, and what it points to is
/// replaced.
class AtomicFile {
 public:
  /// Throws InputError when `path` cannot be written, std::system_error (everywhere) when writing
  /// fails.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();  // without commit(): removes the temporary file
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void commit();

 private:
  std::filesystem::path path_;  // after following symbolic links
  std::string temporary_;       // empty: `path_` itself is open, or there is nothing to remove
  int file_ = -1;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace dp
