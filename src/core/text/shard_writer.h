// Writes the shards of a dataset, and goes on after an interruption.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_shards.h"

namespace dp {

/// A file to append to, through a buffer.
class AppendFile {
 public:
  /// Cuts the file to `size` bytes; makes it if it is not there. Throws InputError if it has fewer.
  AppendFile(const std::filesystem::path& path, uint64_t size);
  ~AppendFile();  // without what was not flushed
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;

  void write(std::string_view bytes);
  /// To the disk. Throws std::system_error.
  void flush();

 private:
  void write_out();

  std::filesystem::path path_;
  int file_ = -1;
  std::string buffer_;
};

/// How far the shards are written.
struct ShardState {
  std::vector<ShardInfo> finished;
  ShardInfo open;  // the one being written, its checksums not yet known
};

class ShardWriter {
 public:
  /// `state` is what a writer that was interrupted had at its last flush(); what was written after that is removed.
  ShardWriter(std::filesystem::path directory, size_t token_bytes, ShardState state = {});

  /// Tokens as they lie in the file, made of so many bytes of text.
  void append(std::string_view tokens, uint64_t text_bytes);
  /// The last document ends here.
  void end_document();
  /// Begins the next shard with the next token.
  void end_shard();
  /// Everything to the disk: what state() says is there then, whatever happens.
  void flush();
  const ShardState& state() const { return state_; }

 private:
  void open_files();

  std::filesystem::path directory_;
  size_t token_bytes_;
  ShardState state_;
  std::vector<AppendFile>
      files_;  // tokens and documents of the open shard; none before its first token
};

}  // namespace dp
