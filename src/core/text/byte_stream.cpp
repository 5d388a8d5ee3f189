#include "text/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/quote.h"

namespace dp {
namespace {

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(const std::filesystem::path& path) : name_(quote(path.string())) {
    // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) throw InputError("cannot open " + name_ + ": " + std::strerror(errno));
    struct stat status {};
    if (fstat(fd_, &status) == 0 && S_ISREG(status.st_mode)) return;
    close(fd_);
    throw InputError("cannot read " + name_ + ": it is not a regular file");
  }
  ~PlainStream() override { close(fd_); }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  size_t read(char* to, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const ssize_t got = ::read(fd_, to + done, size - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw std::system_error(errno, std::generic_category(), "cannot read " + name_);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    position_ += done;
    return done;
  }

  bool skip(uint64_t size) override {
    struct stat status {};
    if (fstat(fd_, &status) != 0 || static_cast<uint64_t>(status.st_size) < position_ + size)
      return false;
    position_ += size;
    return lseek(fd_, static_cast<off_t>(position_), SEEK_SET) >= 0;
  }

  uint64_t file_bytes() const override { return position_; }
  const std::string& damage() const override { return damage_; }

 private:
  std::string name_, damage_;
  int fd_ = -1;
  uint64_t position_ = 0;
};

// What both formats have in common: buffers of compressed and of decompressed bytes, and an end that may come too early.
class CompressedStream : public ByteStream {
 public:
  explicit CompressedStream(const std::filesystem::path& path)
      : file_(path), input_(1 << 16), output_(1 << 16) {}

  size_t read(char* to, size_t size) override {
    size_t done = 0;
    while (done < size) {
      if (given_ == made_ && !refill()) break;
      const size_t part = std::min(size - done, made_ - given_);
      std::memcpy(to + done, output_.data() + given_, part);
      given_ += part;
      done += part;
    }
    return done;
  }

  uint64_t file_bytes() const override { return file_.file_bytes() - (end_ - begin_); }
  const std::string& damage() const override { return damage_; }

 protected:
  /// Takes input from begin_ on, gives output, sets complete_ and damage_.
  virtual size_t decompress(char* to, size_t size) = 0;

  const char* input() const { return input_.data() + begin_; }
  size_t input_size() const { return end_ - begin_; }
  void take(size_t size) { begin_ += size; }

  bool complete_ = false;  // whether the file could end here
  std::string damage_;

 private:
  // Always asks for as much: what zstd returns of damaged data depends on the room that it is given, and a reader
  // that goes on later has to find the same bytes.
  bool refill() {
    given_ = made_ = 0;
    while (made_ == 0 && damage_.empty() && !at_end_) {
      if (begin_ == end_) {
        begin_ = 0;
        end_ = file_.read(input_.data(), input_.size());
      }
      // Without input there may still be output that the decompressor holds back.
      const bool no_more = end_ == 0;
      made_ = decompress(output_.data(), output_.size());
      if (!no_more || made_ > 0) continue;
      at_end_ = true;
      if (!complete_ && damage_.empty())
        damage_ = "is damaged: it ends in the midst of its compressed data";
    }
    return made_ > 0;
  }

  PlainStream file_;
  std::vector<char> input_, output_;
  size_t begin_ = 0, end_ = 0;    // of the input that is not yet decompressed
  size_t given_ = 0, made_ = 0;  // of the output that is not yet read
  bool at_end_ = false;
};

class GzipStream final : public CompressedStream {
 public:
  explicit GzipStream(const std::filesystem::path& path) : CompressedStream(path) {
    if (inflateInit2(&state_, 15 + 16) != Z_OK) throw std::bad_alloc();  // 16: gzip alone
  }
  ~GzipStream() override { inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

 private:
  size_t decompress(char* to, size_t size) override {
    if (complete_ && input_size() == 0) return 0;
    if (complete_) inflateReset(&state_);  // files put one behind the other are one
    complete_ = false;
    const uInt room = static_cast<uInt>(std::min<size_t>(size, 1 << 30));
    // zlib's interface is older than const.
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input()));
    state_.avail_in = static_cast<uInt>(input_size());
    state_.next_out = reinterpret_cast<Bytef*>(to);
    state_.avail_out = room;
    const int result = inflate(&state_, Z_NO_FLUSH);
    take(input_size() - state_.avail_in);
    complete_ = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      damage_ = std::string("is damaged: ") +
                (state_.msg ? state_.msg : "its compressed data is not valid");
    return room - state_.avail_out;
  }

  z_stream state_{};
};

class ZstdStream final : public CompressedStream {
 public:
  explicit ZstdStream(const std::filesystem::path& path)
      : CompressedStream(path), state_(ZSTD_createDStream()) {
    if (!state_) throw std::bad_alloc();
  }
  ~ZstdStream() override { ZSTD_freeDStream(state_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

 private:
  size_t decompress(char* to, size_t size) override {
    if (complete_ && input_size() == 0) return 0;
    ZSTD_inBuffer in{input(), input_size(), 0};
    ZSTD_outBuffer out{to, size, 0};
    const size_t result = ZSTD_decompressStream(state_, &out, &in);
    take(in.pos);
    complete_ = result == 0;
    if (ZSTD_isError(result)) damage_ = std::string("is damaged: ") + ZSTD_getErrorName(result);
    return out.pos;
  }

  ZSTD_DStream* state_;
};

}  // namespace

bool ByteStream::skip(uint64_t size) {
  std::vector<char> buffer(1 << 16);
  while (size > 0) {
    const size_t got = read(buffer.data(), std::min<uint64_t>(size, buffer.size()));
    if (got == 0) return false;
    size -= got;
  }
  return true;
}

Compression detect_compression(const std::filesystem::path& path) {
  if (path.extension() == ".gz") return Compression::kGzip;
  if (path.extension() == ".zst") return Compression::kZstd;
  return Compression::kNone;
}

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path,
                                        Compression compression) {
  switch (compression) {
    case Compression::kGzip:
      return std::make_unique<GzipStream>(path);
    case Compression::kZstd:
      return std::make_unique<ZstdStream>(path);
    default:
      return std::make_unique<PlainStream>(path);
  }
}

}  // namespace dp
