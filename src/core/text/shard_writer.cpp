#include "text/shard_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/quote.h"
#include "text/byte_stream.h"

namespace dp {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void throw_write_failed(const char* what, const fs::path& path) {
  throw std::system_error(errno, std::generic_category(),
                          std::string(what) + " " + quote(path.string()));
}

// Read back in blocks: a mapping would count as memory that is used.
uint64_t hash_of_file(const fs::path& path) {
  const std::unique_ptr<ByteStream> stream = open_stream(path, Compression::kNone);
  std::vector<char> block(1 << 18);
  Hasher hasher;
  while (const size_t size = stream->read(block.data(), block.size()))
    hasher.add(std::as_bytes(std::span(block).first(size)));
  return hasher.result();
}

}  // namespace

AppendFile::AppendFile(const fs::path& path, uint64_t size) : path_(path) {
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw_write_failed("cannot write", path);
  struct stat status {};
  const bool enough = fstat(file_, &status) == 0 && static_cast<uint64_t>(status.st_size) >= size;
  if (enough && ftruncate(file_, static_cast<off_t>(size)) == 0 && lseek(file_, 0, SEEK_END) >= 0)
    return;
  close(file_);
  if (enough) throw_write_failed("cannot cut", path);
  throw InputError(quote(path.string()) + " has " + std::to_string(status.st_size) +
                   " bytes, expected at least the " + std::to_string(size) +
                   " written before the interruption; remove its directory to begin anew");
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      buffer_(std::move(other.buffer_)) {}

AppendFile::~AppendFile() {
  if (file_ >= 0) close(file_);
}

void AppendFile::write(std::string_view bytes) {
  constexpr size_t kBuffer = 1 << 18;
  buffer_ += bytes;
  if (buffer_.size() >= kBuffer) write_out();
}

void AppendFile::write_out() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_write_failed("cannot write", path_);
    left.remove_prefix(static_cast<size_t>(written));
  }
  buffer_.clear();
}

void AppendFile::flush() {
  write_out();
  if (fsync(file_) != 0) throw_write_failed("cannot flush", path_);
}

ShardWriter::ShardWriter(fs::path directory, size_t token_bytes, ShardState state)
    : directory_(std::move(directory)), token_bytes_(token_bytes), state_(std::move(state)) {
  if (state_.open.tokens > 0) open_files();
  for (size_t shard = state_.finished.size() + !files_.empty();; ++shard)
    if (fs::remove(tokens_file(directory_, shard)) +
            fs::remove(documents_file(directory_, shard)) ==
        0)
      break;
}

void ShardWriter::open_files() {
  const size_t shard = state_.finished.size();
  files_.emplace_back(tokens_file(directory_, shard), state_.open.tokens * token_bytes_);
  files_.emplace_back(documents_file(directory_, shard), state_.open.documents * sizeof(uint64_t));
}

void ShardWriter::append(std::string_view tokens, uint64_t text_bytes) {
  state_.open.text_bytes += text_bytes;
  if (tokens.empty()) return;
  if (files_.empty()) open_files();
  files_[0].write(tokens);
  state_.open.tokens += tokens.size() / token_bytes_;
}

void ShardWriter::end_document() {
  const uint64_t end = state_.open.tokens;
  files_.at(1).write({reinterpret_cast<const char*>(&end), sizeof end});
  ++state_.open.documents;
}

void ShardWriter::end_shard() {
  if (files_.empty()) return;
  flush();
  files_.clear();
  const size_t shard = state_.finished.size();
  state_.open.tokens_hash = hash_of_file(tokens_file(directory_, shard));
  state_.open.documents_hash = hash_of_file(documents_file(directory_, shard));
  state_.finished.push_back(std::exchange(state_.open, {}));
}

void ShardWriter::flush() {
  for (AppendFile& file : files_) file.flush();
}

}  // namespace dp
