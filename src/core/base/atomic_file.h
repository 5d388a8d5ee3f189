// Files and directories that appear under their name only once they are complete.
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

/// A directory to be filled beside `target` and then moved there. Without publish() or replace() it goes away with this object.
class StagedDirectory {
 public:
  /// At "TARGET.unfinished-XXXXXX", which nobody else has. Throws InputError.
  explicit StagedDirectory(const std::filesystem::path& target);
  /// At `place`, where what a process that was killed left behind goes first: for targets that one process at a time writes.
  StagedDirectory(const std::filesystem::path& target, const std::filesystem::path& place);
  ~StagedDirectory();
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Moves it to `target`, where nothing may be but an empty directory.
  void publish();
  /// Moves it to `target` in the place of what is there, and flushes that to the disk.
  void replace();

 private:
  std::filesystem::path target_, path_;
};

/// Makes what was renamed or removed in a directory last through a power failure.
void sync_directory(const std::filesystem::path& directory);

}  // namespace dp
