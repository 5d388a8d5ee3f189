// Files of text into datasets of tokens.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "text/text_reader.h"
#include "text/tokenizer.h"

namespace dp {

struct PrepareOptions {
  TextReaderOptions text;
  std::string field = "text";  // of JSONL
  uint64_t shard_tokens =
      1 << 26;  // a shard ends with the first piece of text that brings it there
  double validation =
      0;                // about this share of documents, chosen by what they say; 0: no such split
  bool strict = false;  // what is broken is an error
  int threads = 1;      // results do not depend on it, to the byte
  double journal_every = 15;  // seconds, besides at the end of each shard
  size_t sample_bytes = 0;    // of text to keep, for a measurement
};

/// What has been done, over all interruptions.
struct PrepareReport {
  uint64_t source_bytes = 0;  // read of the files
  uint64_t text_bytes = 0, tokens = 0, documents = 0, shards = 0;
  uint64_t validation_tokens = 0, validation_documents = 0;  // among these
  uint64_t broken = 0;                                       // lines and files
  std::vector<std::string> first_broken;                     // a few
  double seconds = 0;
  uint64_t text_bytes_before = 0, source_bytes_before = 0;  // in earlier processes
  double seconds_before = 0;
  bool finished = false;
  std::vector<std::string> sample;  // pieces as they were encoded
};

/// Sees the work go on; false stops it, to be taken up again.
using PrepareWatcher = std::function<bool(const PrepareReport&)>;

/// Makes `directory` a dataset, or with a validation split two: train and validation in it. It appears when it is
/// complete. Before that everything is in DIRECTORY.unfinished, with a journal; if that is there, the work goes on
/// from it, and the result has the same bytes as that of an uninterrupted run. Memory does not depend on the
/// sources. Throws InputError if `directory` is there, or what is unfinished is of other sources or options.
PrepareReport prepare_tokens(const std::vector<TextSource>& sources, const Tokenizer& tokenizer,
                             const PrepareOptions& options, const std::filesystem::path& directory,
                             const PrepareWatcher& watch);

}  // namespace dp
