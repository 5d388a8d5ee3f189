// A corpus as a file describes it: which files of which Debian packages are its documents.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dp {

struct CorpusPackage {
  std::string name;
  std::string kind;      // "books", "code": what its bytes are counted under; may be empty
  std::string encoding;  // of files that are not UTF-8, as iconv names it; empty: they are left out
  std::vector<std::string> include, exclude;  // patterns, as for pattern_matches()
};

struct Corpus {
  std::string file;
  uint64_t part_bytes = 0;  // longer documents are cut into parts; 0: never
  std::vector<CorpusPackage> packages;
};

/// Throws InputError "FILE: FIELD ..." for what is malformed, missing, unknown or named twice.
Corpus read_corpus(const std::string& file);

/// Whether the whole of `path` is what `pattern` says: * stands for any characters but '/', ** for any at all,
/// ? for one that is not '/'.
bool pattern_matches(std::string_view pattern, std::string_view path);

/// The regular files below `root` that a package includes and does not exclude, in order of their bytes, relative to
/// `root`. Links do not count. Throws InputError that names a pattern which matches nothing.
std::vector<std::string> pick_files(const Corpus& corpus, size_t package,
                                    const std::filesystem::path& root);

/// A file's bytes as UTF-8 with \n at the ends of lines and no byte order mark; nothing if they are not text.
std::optional<std::string> decode_text(std::string bytes, const std::string& encoding);

/// Parts of about equal size, none of which is much longer than `part_bytes`, cut behind an empty line or else behind a
/// line; together they are `text`.
std::vector<std::string_view> split_document(std::string_view text, uint64_t part_bytes);

/// What has become of a package's files.
struct CorpusCounts {
  uint64_t files = 0, documents = 0, bytes = 0;     // taken; documents are files or parts of such
  uint64_t tiny = 0, not_text = 0, duplicates = 0;  // files left out
};

/// Turns files into documents, package after package: a text that has been there before is left out.
class CorpusDocuments {
 public:
  explicit CorpusDocuments(const Corpus& corpus) : corpus_(&corpus) {}

  /// The package's documents as lines of JSON, {"text", "source"}, from its files below `root`.
  std::string document_lines(size_t package, const std::filesystem::path& root, CorpusCounts& counts);

 private:
  const Corpus* corpus_;
  std::set<std::pair<uint64_t, size_t>> seen_;  // checksum and size
};

}  // namespace dp
