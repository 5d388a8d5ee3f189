// What a run of prepare_tokens writes down, to be taken up again after it was interrupted.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/prepare_tokens.h"
#include "text/shard_writer.h"

namespace dp {

/// Where a run stands: all that the rest of it depends on.
struct PrepareJournal {
  TextPosition position;
  std::array<ShardState, 2> splits;  // train, validation
  size_t split = 0;                  // of the document that has begun
  uint64_t document_tokens = 0;      // that it has so far
  uint64_t broken = 0;
  std::vector<std::string> first_broken;
  double seconds = 0;
  uint64_t source_bytes = 0;
};

/// Everything that decides what a run writes, as JSON.
std::string prepare_settings(const std::vector<TextSource>& sources, const Tokenizer& tokenizer,
                             const PrepareOptions& options);

/// The directory that a run works in until it is done, held by one process at a time.
class UnfinishedDirectory {
 public:
  /// Beside `target`. Throws InputError if `target` is there, if another process works here, or if what is here is
  /// not of these settings.
  UnfinishedDirectory(std::filesystem::path target, std::string settings);
  ~UnfinishedDirectory();
  UnfinishedDirectory(const UnfinishedDirectory&) = delete;
  UnfinishedDirectory& operator=(const UnfinishedDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// The last that was written: of a run just begun, an empty one.
  PrepareJournal read_journal() const;
  void write_journal(const PrepareJournal& journal) const;
  /// It becomes the target.
  void finish();
  /// It goes away.
  void remove();

 private:
  std::filesystem::path target_, path_;
  std::string settings_;
  int lock_ = -1;
};

}  // namespace dp
