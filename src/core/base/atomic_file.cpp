#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/quote.h"

namespace dp {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void throw_not_writable(const fs::path& path, int error) {
  throw InputError("cannot write " + quote(path.string()) + ": " + std::strerror(error));
}

[[noreturn]] void throw_failed(const char* what, const fs::path& path) {
  throw std::system_error(errno, std::generic_category(),
                          std::string(what) + " " + quote(path.string()));
}

// The permissions that open(..., mode) or mkdir(..., mode) would have given.
mode_t default_mode(mode_t mode) {
  const mode_t mask = umask(0);
  umask(mask);
  return mode & ~mask;
}

fs::path parent_directory(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path) : path_(path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) throw_not_writable(path, EISDIR);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    // O_NONBLOCK: opening a pipe that nobody reads from would wait for ever. Writing may wait.
    file_ = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (file_ < 0) throw_not_writable(path, errno);
    fcntl(file_, F_SETFL, fcntl(file_, F_GETFL) & ~O_NONBLOCK);
    return;
  }
  if (fs::exists(status)) {
    path_ = fs::canonical(path);
    if (access(path_.c_str(), W_OK) != 0) throw_not_writable(path, errno);
  }
  temporary_ = path_.string() + ".tmp-XXXXXX";
  file_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (file_ < 0) {
    const int reason = errno;
    temporary_.clear();
    throw_not_writable(path, reason);
  }
  fchmod(file_, default_mode(0666));
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_failed("cannot write", path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (!temporary_.empty() && fsync(file_) != 0) throw_failed("cannot flush", path_);
  if (close(std::exchange(file_, -1)) != 0) throw_failed("cannot close", path_);
  if (temporary_.empty()) return;
  if (rename(temporary_.c_str(), path_.c_str()) != 0) throw_failed("cannot replace", path_);
  temporary_.clear();
  sync_directory(parent_directory(path_));
}

StagedDirectory::StagedDirectory(const fs::path& target)
    : target_(target.has_filename() ? target : target.parent_path()) {
  std::string name = target_.string() + ".unfinished-XXXXXX";
  std::error_code ignored;
  fs::create_directories(parent_directory(name), ignored);
  if (mkdtemp(name.data()) == nullptr) throw_not_writable(target, errno);
  chmod(name.c_str(), default_mode(0777));
  path_ = name;
}

StagedDirectory::StagedDirectory(const fs::path& target, const fs::path& place)
    : target_(target), path_(place) {
  fs::remove_all(path_);
  fs::create_directories(path_);
}

StagedDirectory::~StagedDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void StagedDirectory::publish() {
  fs::rename(path_, target_);
  path_.clear();
}

void StagedDirectory::replace() {
  sync_directory(path_);
  fs::remove_all(target_);
  publish();
  sync_directory(parent_directory(target_));
}

void require_new(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::none) throw_not_writable(path, error.value());
  if (fs::exists(status))
    throw InputError(quote(path.string()) + " exists already, expected a new directory");
}

void require_writable(const fs::path& path) { AtomicFile file(path); }

void write_file_atomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void sync_directory(const fs::path& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // readable or not, the change itself has happened
  fsync(fd);
  close(fd);
}

}  // namespace dp
