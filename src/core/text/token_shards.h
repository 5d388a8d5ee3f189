// Text as tokens on the disk. A dataset is a directory:
//   manifest.json           what follows: tokenizer, dtype, shards with their sizes and checksums
//   tokenizer.model, ...    the tokenizer's file, unless it is that of raw bytes
//   shard-00000.tokens      little-endian uint16, or uint32 for more than 65536 different tokens
//   shard-00000.documents   uint64 each: where documents end, in tokens of the shard
// All shards one behind the other are one stream. A document ends with the tokenizer's eos, if it has one, and may go
// on in the next shard.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "text/tokenizer.h"

namespace dp {

struct ShardInfo {
  uint64_t tokens = 0;
  uint64_t documents = 0;                        // that end in it
  uint64_t text_bytes = 0;                       // that its tokens were made of
  uint64_t tokens_hash = 0, documents_hash = 0;  // of the files' bytes
  bool operator==(const ShardInfo&) const = default;
};

struct TokenManifest {
  std::string tokenizer_kind, tokenizer_fingerprint, tokenizer_file;  // no file: raw bytes
  int64_t vocab_size = 0;
  std::optional<int32_t> eos;
  std::vector<ShardInfo> shards;

  size_t token_bytes() const { return vocab_size <= 65536 ? 2 : 4; }
  bool operator==(const TokenManifest&) const = default;
};

inline constexpr const char* kManifestFile = "manifest.json";

/// Without shards.
TokenManifest make_manifest(const Tokenizer& tokenizer);
std::string to_json(const TokenManifest& manifest);
/// Throws InputError that names the file and the field.
TokenManifest parse_manifest(const std::string& text, const std::string& file);

std::filesystem::path tokens_file(const std::filesystem::path& directory, size_t shard);
std::filesystem::path documents_file(const std::filesystem::path& directory, size_t shard);

/// A range of tokens of the whole stream.
struct TokenRange {
  uint64_t begin = 0, end = 0;
  bool operator==(const TokenRange&) const = default;
};

/// A memory-mapped dataset. Const, and therefore callable from several threads at once.
class TokenDataset {
 public:
  /// Checks the sizes of all files, and of documents their ends and checksums. Throws InputError that names the file at
  /// fault.
  explicit TokenDataset(const std::filesystem::path& directory);

  const std::filesystem::path& directory() const { return directory_; }
  const TokenManifest& manifest() const { return manifest_; }
  uint64_t num_tokens() const { return tokens_before_.back(); }
  uint64_t num_documents() const { return documents_before_.back(); }
  uint64_t text_bytes() const;

  /// Tokens begin .. begin + out.size() - 1. The first read of a shard compares all of it with its checksum. Throws
  /// std::out_of_range for a range that is not there, InputError for a damaged shard or a token outside of the vocabulary.
  void read(uint64_t begin, std::span<int64_t> out) const;
  /// The ends of documents that lie in begin+1 .. end, ascending.
  std::vector<uint64_t> document_ends(uint64_t begin, uint64_t end) const;
  /// The tokens of a document, with its eos. Throws std::out_of_range.
  TokenRange document(uint64_t number) const;

  /// Reads everything and compares it with the checksums. Throws InputError that names the file.
  void verify() const;
  /// The one that made it. Throws InputError if it is another.
  std::unique_ptr<Tokenizer> load_tokenizer() const;

 private:
  struct Verified {
    std::mutex mutex;
    std::atomic<bool> done{false};
  };
  struct Shard {
    MappedFile tokens, documents;
    std::span<const uint64_t> ends;
    std::unique_ptr<Verified> verified;
  };

  uint64_t document_end(uint64_t number) const;
  void verify_tokens(size_t shard) const;

  std::filesystem::path directory_;
  TokenManifest manifest_;
  std::vector<Shard> shards_;
  std::vector<uint64_t> tokens_before_,
      documents_before_;  // one more than shards: the last are the totals
};

}  // namespace dp
